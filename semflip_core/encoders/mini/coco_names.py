"""Words for the 80 COCO classes, and words that name several of them.

Only words whose everyday meaning is what COCO's annotators marked: a lamp is no class, a desk is
marked as a dining table, a monitor as a tv.
"""

from __future__ import annotations

_WORDS = """
person: people, human, someone, somebody; man, woman, child, boy, girl, guy, lady, kid, baby,
 pedestrian, crowd, worker, officer, soldier, player, footballer, athlete, passenger, tourist,
 customer, waiter, employee, colleague, student, teacher, skier, swimmer, surfer, cyclist,
 astronaut, photographer, face, men, women, children
bicycle: bike, pushbike; mountain bike
car: automobile; taxi, cab, sedan, van, suv, parked car, sports car
motorcycle: motorbike; scooter, moped, motor scooter
airplane: plane, aeroplane, aircraft; jet, airliner
bus: coach; minibus, double decker
train: railway train; locomotive, tram, railway carriage, subway train
truck: lorry; pickup, pickup truck, fire engine, delivery truck
boat: ship; sailboat, canoe, kayak, rowing boat, ferry, yacht, gondola
traffic light: traffic signal, stoplight
fire hydrant: hydrant
stop sign:
parking meter:
bench: park bench; pew
bird:; pigeon, duck, seagull, parrot, sparrow, swan, goose, hen, chicken, eagle, owl
cat: kitty; kitten, tabby, tomcat
dog: hound; puppy, poodle, terrier, labrador, lap dog
horse:; pony, foal, mare
sheep:; lamb, ram
cow: cattle; bull, calf, ox
elephant:
bear:; polar bear, brown bear, grizzly
zebra:
giraffe:
backpack: rucksack, knapsack; school bag
umbrella: parasol, sunshade; beach umbrella
handbag: purse, shoulder bag; tote bag
tie: necktie; bow tie
suitcase: luggage, trolley case; briefcase
frisbee: flying disc
skis: ski, pair of skis
snowboard:
sports ball: ball; football, soccer ball, basketball, tennis ball, volleyball, baseball
kite:
baseball bat:
baseball glove: baseball mitt
skateboard:; longboard
surfboard:
tennis racket: racket, racquet; badminton racket
bottle:; wine bottle, water bottle, beer bottle
wine glass: goblet; champagne glass
cup: mug; coffee cup, teacup, drinking glass, tumbler, beaker, coffee mug
fork:; dessert fork
knife:; kitchen knife, bread knife
spoon:; teaspoon, tablespoon, ladle
bowl:; salad bowl, soup bowl, fruit bowl
banana:; bunch of bananas
apple:; green apple, red apple
sandwich:; burger, hamburger, toast
orange: tangerine, mandarin, clementine
broccoli:
carrot: carrots
hot dog:
pizza:
donut: doughnut
cake:; birthday cake, cupcake, pie
chair: seat; armchair, stool, office chair, desk chair, dining chair, swivel chair, bar stool,
 easy chair, counter stool, folding chair
couch: sofa, settee, loveseat; divan
potted plant: plant, houseplant, pot plant, plant in a pot, indoor plant; flower pot, ficus
bed:; double bed, single bed, bunk bed, mattress
dining table: table; desk, kitchen table, coffee table, round table, work desk, writing desk
toilet: wc, lavatory, loo; toilet bowl, toilet seat
tv: television, tv set, television set; monitor, computer monitor, screen, flat screen, display
laptop: notebook computer, laptop computer, portable computer, macbook
mouse: computer mouse
remote: remote control, tv remote; game controller
keyboard: computer keyboard
cell phone: mobile phone, smartphone; phone, telephone, mobile, iphone
microwave: microwave oven
oven: stove, cooker, range, kitchen stove; gas stove
toaster:
sink: washbasin, basin, wash basin; kitchen sink, bathroom sink
refrigerator: fridge; freezer, chest freezer, mini fridge
book: books; novel, textbook, notebook
clock:; wall clock, alarm clock, watch
vase: flower vase; urn
scissors: pair of scissors, shears
teddy bear: stuffed bear, teddy; stuffed animal, plush toy, soft toy, cuddly toy
hair drier: hair dryer, blow dryer
toothbrush:
"""

_KINDS = """
vehicle: bicycle, car, motorcycle, bus, train, truck, boat, airplane
animal: bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe
pet: cat, dog, bird
furniture: chair, couch, bed, dining table, bench
fruit: banana, apple, orange
vegetable: broccoli, carrot
food: banana, apple, sandwich, orange, broccoli, carrot, hot dog, pizza, donut, cake
cutlery: fork, knife, spoon
dish: bowl, cup
tableware: bowl, cup, wine glass, fork, knife, spoon
glass: wine glass, cup
bag: backpack, handbag, suitcase
computer: laptop, tv, keyboard
appliance: microwave, oven, toaster, refrigerator
electronics: tv, laptop, cell phone, remote, keyboard, mouse
toy: teddy bear, sports ball, kite, frisbee
place to sit: chair, couch, bench
"""


def _table(text: str) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """``name: word, word; word``, a line that starts with a blank goes on the one before.

    Returns:
        name -> words before and after the semicolon.
    """
    found = {}
    for line in text.strip().replace("\n ", " ").splitlines():
        name, _, words = line.partition(":")
        same, _, narrower = words.partition(";")
        found[name] = (_split(same), _split(narrower))
    return found


def _split(words: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in words.split(",") if word.strip())


_CLASS_WORDS = _table(_WORDS)
#: Word -> the class whose things it names, all of them; the classes' own names among them.
SYNONYMS = {word: name for name, (same, _) in _CLASS_WORDS.items() for word in (name, *same)}
#: Word -> the class that some such thing is of: each armchair is a chair, not the other way round.
NARROWER = {word: name for name, (_, part) in _CLASS_WORDS.items() for word in part}
#: Both.
WORDS = {**SYNONYMS, **NARROWER}
#: Word for a kind of thing -> the classes that are of this kind.
KINDS = {kind: frozenset(names) for kind, (names, _) in _table(_KINDS).items()}
