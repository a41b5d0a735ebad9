"""Words that mini's weights are made with: distractors, background, and questions to learn asking.

Distractors compete with what a question asks for: a region that another word explains better does
not show the referent. Questions give the few dimensions of wording that the gate sees; they are
ours, written without regard to any test question.
"""

from __future__ import annotations

from itertools import product

_DISTRACTORS = """
chair, armchair, sofa, stool, bench, table, desk, coffee table, bed, bunk bed, crib, mattress,
pillow, blanket, wardrobe, bookcase, shelf, cupboard, chest of drawers, locker, safe, suitcase,
backpack, handbag, shopping bag, cardboard box, wooden crate, basket, barrel, bucket, trash bin,
broom, mop, vacuum cleaner, ladder, toolbox, hammer, drill, saw, workbench, fridge, oven, stove,
microwave, toaster, kettle, teapot, coffee machine, blender, sink, dishwasher, washing machine,
iron, ironing board, bathtub, shower, toilet, washbasin, towel, mirror, toothbrush, soap, hair
dryer, bottle, wine glass, cup, mug, plate, bowl, knife, fork, spoon, frying pan, cooking pot,
cutting board, bread, cake, pizza, fruit, apple, banana, orange, vegetables, milk carton,
television, loudspeaker, radio, laptop, computer monitor, keyboard, computer mouse, printer,
telephone, mobile phone, camera, game console, projector, fan, heater, radiator, fireplace, air
conditioner, lamp, ceiling light, floor lamp, candle, torch, clock, alarm clock, painting,
photograph, poster, calendar, map, globe, vase, flowers, potted plant, tree, bush, grass, rug,
curtain, window, door, staircase, wall, floor, ceiling, piano, guitar, drum, violin, trumpet,
book, newspaper, notebook, pen, pencil, scissors, envelope, teddy bear, doll, toy car, toy
train, toy blocks, rocking horse, board game, ball, football, basketball, tennis racket,
skateboard, bicycle, treadmill, dumbbell, exercise bike, pool table, dartboard, fire
extinguisher, first aid kit, exit sign, traffic sign, umbrella, coat rack, coat, hat, shoe,
glasses, wrist watch, wheelchair, pram, person, man, woman, child, dog, cat, bird, fish, horse,
cow, sheep, elephant, lion, bear, snake, insect, car, bus, truck, motorcycle, train, boat,
aeroplane, house, church, bridge, street, road, mountain, sea, sky, snow, fence, statue, tent,
swing, garden chair, parasol, barbecue, aquarium, bird cage, dog kennel, helmet, robot, drone
"""

DISTRACTORS: tuple[str, ...] = tuple(" ".join(name.split()) for name in _DISTRACTORS.split(","))

#: What most of a picture shows; regions without an object are trained towards these.
BACKGROUND: tuple[str, ...] = (
    "wall",
    "floor",
    "empty room",
    "plain wall",
    "wooden floor",
    "ceiling",
    "room",
    "corner of a room",
    "door",
    "carpet",
)

_NOUNS = (
    "fire extinguisher",
    "red chair",
    "laptop",
    "plants",
    "sofa by the window",
    "printer",
    "dog",
    "shelves",
)
_ASKING = (
    "Where is the {}?",
    "where's the {}",
    "Can you find the {}?",
    "Take me to the {}.",
    "Go to the {}",
    "I am looking for the {}",
    "Show me the {} please",
    "Is there a {} around here?",
    "Have you seen any {}?",
    "Where did you see the {} last?",
    "Which way to the {}?",
    "I need the {}. Where should I go?",
    "drive to the {}",
    "How many {} did you see?",
    "What colour is the {}?",
    "Where is the {} next to the {}?",
    "Find the {} behind the {}",
    "Is the {} on the {}?",
    "What is on top of the {}?",
    "In which room is the {}?",
    "Describe the {}",
    "Bring me to where the {} stands",
    "lead the way to the {}",
    "guide me over to the {}",
    "the {}, where is it",
    "{}?",
    "where can the {} be found",
    "any idea where the {} went?",
    "Let us go to the {}.",
    "Lead me towards the {}, would you?",
    "please bring us to the {} now",
    "Tell me where to find the {}.",
    "Is there some {} in this building? Then go there.",
    "Do you remember where the {} was?",
    "my brother forgot his {} here, can you take me to it",
    "I would like to see the {}.",
    "I want to get to the {} next to the {}",
    "Somebody asked for the {}, where did you pass it?",
    "Stop in front of the {}.",
    "come along to the {} with me",
    "Could you show me the way to the {} in the {}?",
    "did you happen to notice a {}",
    "Move to the {} and wait there",
    "Navigate: {}",
    "In what place is the {} on the {}?",
    "Which room is the {} in?",
    "Which side of the room is the {} on?",
    "What does the {} look like?",
    "What stands beside the {}?",
    "what is the {} standing on",
    "What is the colour of the {}?",
    "Which shape has the {}?",
)
_OPINION = (
    "Which {} looks the nicest?",
    "Which of the {} would you choose?",
    "Is the {} beautiful?",
    "What is the best {} for a party?",
    "Are you fond of the {}?",
    "Which {} is the most comfortable?",
    "Is the {} worth its money?",
    "Which {} suits the room better?",
    "How cosy is the {}?",
    "How elegant is the {}?",
    "Would a child enjoy the {}?",
    "Is the {} too old-fashioned?",
)
_ACTING = (
    "Pick up the {}",
    "Open the {} and look inside",
    "Dust off the {}",
    "Turn on the {}",
    "Move the {} to the kitchen",
    "Bring me the {}",
    "Switch off the {}",
    "What happens if you push the {}?",
    "Throw the {} away",
    "Can you repair the {}?",
    "What is inside the closed {}?",
    "How heavy is the {}?",
    "Is the {} still warm?",
    "Fill the {} with water",
)
_UNSEEN = (
    "Who paid for the {}?",
    "When was the {} delivered?",
    "What was the price of the {}?",
    "What is behind the {} where you could not look?",
    "Does the {} have a scent?",
    "What is the serial number of the {}?",
    "Who owns the {}?",
    "How old is the {}?",
    "Why is the {} here?",
    "Will the {} be here tomorrow?",
    "What is the password of the {}?",
    "What was playing on the {} yesterday?",
    "How loud is the {}?",
    "Which shop sells the {}?",
)
_NEEDS = (
    "I am tired. Where can I sit down?",
    "I want to drink something",
    "Where could I wash my hands?",
    "I need to print a page, where do I go?",
    "Somewhere to put my coat",
    "I'd like to watch a film",
    "it is dark here, I need light",
    "What time is it?",
    "I am hungry",
    "Where can I charge my phone?",
    "I need something to cut paper",
    "my hands are cold, I need to warm them",
    "I need somewhere to sleep",
    "need to wash these clothes",
    "Hey, I must send a letter, where?",
    "we need a place to eat together",
)


#: What a wording asks for; the gate sees how much a question sounds like each.
KINDS: dict[str, tuple[str, ...]] = {
    "asking": _ASKING,
    "opinion": _OPINION,
    "acting": _ACTING,
    "unseen": _UNSEEN,
    "needing": _NEEDS,
}


def questions() -> dict[str, tuple[str, ...]]:
    """Questions of each kind, every template with several nouns."""
    pairs = tuple(zip(_NOUNS, _NOUNS[1:] + _NOUNS[:1], strict=True))
    return {
        kind: tuple(dict.fromkeys(t.format(a, b) for t, (a, b) in product(templates, pairs)))
        for kind, templates in KINDS.items()
    }
