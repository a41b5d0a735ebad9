"""Names of things that robots are asked for; what they differ in is what recall searches by."""

from __future__ import annotations

#: At least twice as many as ``RecallSettings.index_dimensions``. Changing them changes the policy.
_TEXT = """
    chair, table, sofa, bed, lamp, desk, bookshelf, book, cupboard, wardrobe, drawer, mirror,
    rug, curtain, cushion, pillow, blanket, painting, photograph, clock, vase, flower, plant,
    tree, candle, fireplace, radiator, fan, heater, air conditioner, window, door, door
    handle, staircase, elevator, escalator, floor, wall, ceiling, pillar, light switch, power
    socket, cable, television, screen, monitor, computer, laptop, keyboard, computer mouse,
    printer, telephone, mobile phone, tablet, loudspeaker, headphones, camera, projector,
    whiteboard, poster, notice board, calendar, map, newspaper, paper, pen, scissors, box,
    carton, bag, backpack, suitcase, umbrella, hat, coat, jacket, shirt, shoe, towel, laundry
    basket, washing machine, ironing board, vacuum cleaner, broom, bucket, mop, trash can,
    recycling bin, kitchen, refrigerator, oven, stove, microwave, dishwasher, sink, tap,
    kettle, toaster, coffee machine, pan, pot, plate, bowl, cup, mug, glass, bottle, can,
    knife, fork, spoon, bread, fruit, apple, banana, orange, vegetable, cake, drink, bathroom,
    toilet, toilet paper, bathtub, shower, toothbrush, soap, medicine, first aid kit, fire
    extinguisher, fire alarm, exit sign, warning sign, security camera, wheelchair, stretcher,
    ladder, toolbox, hammer, screwdriver, drill, saw, rope, barrel, pallet, shelf, forklift,
    cart, trolley, machine, robot, conveyor belt, car, truck, bus, motorcycle, bicycle,
    scooter, traffic light, street, bench, fence, gate, garden, grass, stone, toy, ball, doll,
    game, piano, guitar, violin, drum, dog, cat, bird, fish, person, child, man, woman
"""
NAMES: tuple[str, ...] = tuple(" ".join(_TEXT.split()).split(", "))
