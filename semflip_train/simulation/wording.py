"""How people ask. Test wordings share no template with training's, nor with Q-Flip's.

Placeholders: ``{the}`` "the red vase", ``{The}`` the same at the start, ``{a}`` "a red vase",
``{is}`` "is" or "are", ``{was}`` and ``{do}`` alike, ``{need}`` "to wash my hands", ``{room}``
"kitchen", ``{it}`` "it" or "them", ``{absent}`` something that is not there, ``{noun}`` "vase".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semflip_train.simulation.phrases import Phrase


@dataclass(frozen=True, slots=True)
class Wordings:
    """Templates of one side of the split: for a named object, for a need, and for what it is like.

    ``about`` asks what a picture of the thing tells. Test questions have none, but people ask so,
    and a gate that only ever met "where" takes "what" and "which" for a sign of what no picture
    answers.
    """

    named: tuple[str, ...]
    needed: tuple[str, ...]
    about: tuple[str, ...] = ()


TRAIN = Wordings(
    named=(
        "Where {is} {the}?",
        "Can you take me to {the}?",
        "Go to {the}.",
        "I am looking for {the}.",
        "Have you seen {the} anywhere?",
        "Show me where {the} {is}.",
        "find {the}",
        "where did you see {the}",
        "Please drive to {the}.",
        "Which way is it to {the}?",
        "I can't find {the}. Where should I look?",
        "go over to {the}",
        "I can't seem to locate {the}, any idea what became of {it}?",
        "Drive to {the} and stop there.",
        "I'm looking for {the}.",
        "Show me the way to {the}, would you?",
        "Let's go see {the}.",
        "Where would one find {the} in this building?",
        "I've been hunting for {the} all morning, help me out.",
        "Where do they keep {the}?",
        "Pull up next to {the}.",
        "Navigate to {the}.",
        "go stand by {the}",
        "Position yourself in front of {the}.",
        "Return to {the}.",
        "where can i find {a}",
        "How far away {is} {the}?",
        "I would like to be brought to {the}.",
        "Track down {the} for me.",
        "Meet me at {the}.",
        "Approach {the} slowly.",
        "Look up where you photographed {the}.",
    ),
    needed=(
        "I need {need}. Where should I go?",
        "Where can I go if I need {need}?",
        "I want you to find what I need {need}.",
        "i need {need}",
    ),
    about=(
        "What colour {is} {the}?",
        "Which room {is} {the} in?",
        "What {is} right beside {the}?",
        "What {do} {the} look like?",
        "what {is} {the} standing on",
        "Which wall {is} {the} closest to?",
        "What shape {is} {the}?",
        "Which things are near {the}?",
        "Describe {the} for me.",
        "Which side of the room {is} {the} on?",
        "What {do} {the} rest on?",
        "Would you call {the} tall and narrow, or low and wide?",
    ),
)
#: How often a thing named without look or place is asked about so, where there are templates.
ABOUT_SHARE = 0.3

TEST = Wordings(
    named=(
        "Could you lead me to {the}?",
        "Do you know where I left {the}?",
        "{The}, please.",
        "Bring me over to {the}.",
        "take me there: {the}",
        "whereabouts {is} {the}",
        "Is there {a} around here? If so, go there.",
        "Tell me the place where {the} can be found.",
        "Guide me to {the}, will you?",
        "Head for {the}.",
        "Did you come across {a} on your tour?",
        "I'd like to stand in front of {the}.",
        "{the} - where?",
        "My friend left {a} here somewhere. Can you bring me there?",
    ),
    needed=(
        "I need {need}. Where?",
        "Hey, I need {need}, so take me to the right spot.",
        "need {need}, which place is good for that",
        "Somebody here needs {need}. Any idea where?",
    ),
)

UNAVAILABLE = (
    "Who bought {the}?",
    "How much did {the} cost?",
    "In which year {was} {the} made?",
    "What {do} {the} weigh?",
    "When {was} {the} last used?",
    "Which shop did {the} come from?",
    "What is the wifi password in the {room}?",
    "How many people live here?",
    "How warm does the {room} get in summer?",
    "Whose birthday is it today?",
    "Is {the} still under guarantee?",
    "what does it smell like near {the}",
    "Who was standing next to {the} yesterday evening?",
    "What's the street address of this place?",
    "How loud is it in the {room} at night?",
    "Where was {the} before you came in?",
)
SUBJECTIVE = (
    "Would {the} suit my grandmother's taste?",
    "Which corner of the {room} feels the most inviting?",
    "Is {the} pretty enough for a magazine?",
    "Take me to whatever is the ugliest thing in the {room}.",
    "Do you like {the}?",
    "What here would make the nicest present?",
    "Is {the} worth keeping?",
    "Where would you say one dreams best?",
    "which thing here is the coolest",
    "Does {the} look elegant to you?",
    "Bring me to the spot with the best atmosphere.",
    "Is the {room} decorated with good taste?",
)
NEEDS_ACTION = (
    "Push {the} a little to the left and say what is behind {it}.",
    "Lift {the} and check whether dust lies underneath.",
    "Please wipe {the} clean.",
    "Carry {the} into the other room.",
    "Turn {the} around so that I see the back.",
    "Knock on {the} and tell me what you hear.",
    "Touch {the}: rough or smooth?",
    "Wrap {the} in paper for me.",
    "Take {the} apart and count the screws.",
    "Switch the light in the {room} off and look again.",
    "pick up {the} and hand {it} to me",
    "Shake {the} and listen for a rattle.",
)
FALSE_PREMISE = (
    "Why does {absent} lie on top of {the}?",
    "Who put {absent} right beside {the}?",
    "Lead me to {absent} that is leaning against {the}.",
    "Stop at {the}, the one with {absent} attached to it.",
    "What colour is {absent} in front of {the}?",
    "Go to {absent} behind {the}.",
    "Since {absent} is blocking {the}, where exactly is it?",
    "Bring me over to {the} with {absent} on it.",
)
AMBIGUOUS = (
    "Bring me to that {noun} I told you about.",
    "Which {noun} did I mean? Go there.",
    "Head for the {noun}.",
    "The {noun}, please.",
    "Could you lead me to the {noun}?",
    "Guide me to the {noun}, will you?",
)
VAGUE = (
    "Go to the other one.",
    "Bring me over to that thing.",
    "Could you lead me to it?",
    "Where did they put those?",
    "Head for the usual place.",
    "take me there",
)


def put(template: str, phrase: Phrase | None = None, **more: str) -> str:
    """Fill a template's placeholders."""
    values = dict(more)
    if phrase is not None:
        values |= {
            "the": phrase.the,
            "The": phrase.the[0].upper() + phrase.the[1:],
            "a": phrase.some,
            "is": "are" if phrase.plural else "is",
            "was": "were" if phrase.plural else "was",
            "do": "do" if phrase.plural else "does",
            "it": "them" if phrase.plural else "it",
            "noun": phrase.noun,
        }
    return template.format_map(values)


def draw(rng: np.random.Generator, templates: tuple[str, ...]) -> str:
    """One template."""
    return templates[int(rng.integers(len(templates)))]
