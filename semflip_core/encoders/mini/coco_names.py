"""Words for the 80 COCO classes, and words that name several of them.

Only words whose everyday meaning is what COCO's annotators marked: a lamp is no class, a desk is
marked as a dining table, a monitor as a tv.
"""

from __future__ import annotations

_WORDS = """
person: people, man, woman, child, boy, girl, human, guy, lady, kid, baby, pedestrian, crowd,
 someone, somebody, worker, officer, soldier, player, footballer, athlete, passenger, tourist,
 customer, waiter, employee, colleague, student, teacher, skier, swimmer, surfer, cyclist,
 astronaut, photographer, face, men, women, children
bicycle: bike, mountain bike, pushbike
car: automobile, taxi, cab, sedan, van, suv, parked car, sports car
motorcycle: motorbike, scooter, moped
airplane: plane, aeroplane, aircraft, jet, airliner
bus: coach, minibus, double decker
train: locomotive, tram, railway carriage, subway train
truck: lorry, pickup, pickup truck, fire engine, delivery truck
boat: ship, sailboat, canoe, kayak, rowing boat, ferry, yacht, gondola
traffic light: traffic signal, stoplight
fire hydrant: hydrant
stop sign:
parking meter:
bench: park bench, pew
bird: pigeon, duck, seagull, parrot, sparrow, swan, goose, hen, chicken, eagle, owl
cat: kitten, kitty, tabby, tomcat
dog: puppy, hound, poodle, terrier, labrador, lap dog
horse: pony, foal, mare
sheep: lamb, ram
cow: cattle, bull, calf, ox
elephant:
bear: polar bear, brown bear, grizzly
zebra:
giraffe:
backpack: rucksack, knapsack, school bag
umbrella: parasol, sunshade, beach umbrella
handbag: purse, shoulder bag, tote bag
tie: necktie, bow tie
suitcase: luggage, briefcase, trolley case
frisbee: flying disc
skis: ski, pair of skis
snowboard:
sports ball: ball, football, soccer ball, basketball, tennis ball, volleyball, baseball
kite:
baseball bat:
baseball glove: baseball mitt
skateboard: longboard
surfboard:
tennis racket: racket, racquet, badminton racket
bottle: wine bottle, water bottle, beer bottle
wine glass: goblet, champagne glass
cup: mug, coffee cup, teacup, drinking glass, tumbler, beaker, coffee mug
fork: dessert fork
knife: kitchen knife, bread knife
spoon: teaspoon, tablespoon, ladle
bowl: salad bowl, soup bowl, fruit bowl
banana: bunch of bananas
apple: green apple, red apple
sandwich: burger, hamburger, toast
orange: tangerine, mandarin, clementine
broccoli:
carrot: carrots
hot dog:
pizza:
donut: doughnut
cake: birthday cake, cupcake, pie
chair: armchair, stool, office chair, dining chair, swivel chair, bar stool, easy chair, seat
couch: sofa, settee, loveseat, divan
potted plant: plant, houseplant, pot plant, flower pot, indoor plant, plant in a pot, ficus
bed: double bed, single bed, bunk bed, mattress
dining table: table, desk, kitchen table, coffee table, round table
toilet: wc, lavatory, loo, toilet bowl, toilet seat
tv: television, tv set, monitor, television set, computer monitor, screen, flat screen, display
laptop: notebook computer, laptop computer, portable computer, macbook
mouse: computer mouse
remote: remote control, tv remote, game controller
keyboard: computer keyboard
cell phone: mobile phone, phone, smartphone, telephone, mobile, iphone
microwave: microwave oven
oven: stove, cooker, range, kitchen stove
toaster:
sink: washbasin, basin, wash basin, kitchen sink, bathroom sink
refrigerator: fridge, freezer
book: books, novel, textbook, notebook
clock: wall clock, alarm clock, watch
vase: flower vase, urn
scissors: pair of scissors, shears
teddy bear: stuffed animal, plush toy, soft toy, teddy, cuddly toy
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


def _table(text: str) -> dict[str, tuple[str, ...]]:
    """``name: word, word`` a line; a line that starts with a blank goes on the one before."""
    lines = text.strip().replace("\n ", " ").splitlines()
    parts = (line.partition(":") for line in lines)
    return {
        name: tuple(word.strip() for word in words.split(",") if word.strip())
        for name, _, words in parts
    }


_SYNONYMS = _table(_WORDS)
#: Word -> the class it names; the classes' own names among them.
WORDS = {
    **{name: name for name in _SYNONYMS},
    **{word: name for name, words in _SYNONYMS.items() for word in words},
}
#: Word for a kind of thing -> the classes that are of this kind.
KINDS = {kind: frozenset(names) for kind, names in _table(_KINDS).items()}
