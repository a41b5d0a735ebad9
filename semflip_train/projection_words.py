"""Words that mini's weights are made with: distractors and background.

Distractors compete with what a question asks for: a region that another word explains better does
not show the referent.
"""

from __future__ import annotations

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
