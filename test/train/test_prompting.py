"""Prompting baselines: what is asked, and how strictly a reply is read."""

from __future__ import annotations

import pytest

from semflip_core.errors import ConfigError
from semflip_train.baselines.prompting import MODES, PromptingBaseline, parse, prompt


@pytest.mark.parametrize(
    ("mode", "text", "parsed", "refused", "category"),
    [
        ("coarse", "Yes.", True, False, None),
        ("coarse", "no", True, True, None),
        ("coarse", "No, I do not see it", False, False, None),
        ("fine", "answerable", True, False, None),
        ("fine", "False premise.", True, True, "false premise"),
        ("fine", "it is absent", False, False, None),
        ("chain_of_thought", "It asks for a lamp.\nVerdict: abstain", True, True, None),
        ("chain_of_thought", "Verdict: abstain? No. Verdict: answer", True, False, None),
        ("chain_of_thought", "I would abstain", False, False, None),
        ("tool", '{"tool": "drive_to", "target": "lamp"}', True, False, None),
        ("tool", '```json\n{"tool": "abstain", "reason": "none"}\n```', True, True, "none"),
        ("tool", '{"tool": "dance"}', False, False, None),
        ("tool", "abstain", False, False, None),
    ],
)
def test_replies_are_read_strictly(mode, text, parsed, refused, category):
    reply = parse(mode, text)
    assert (reply.parsed, reply.refused, reply.category) == (parsed, refused, category)


@pytest.mark.parametrize("mode", MODES)
def test_prompts_carry_the_question_on_one_line(mode):
    assert '"Where is the lamp?"' in prompt(mode, "Where is\nthe  lamp?")


def test_unknown_mode_lists_the_known_ones():
    with pytest.raises(ConfigError, match="unknown prompting mode 'shout'; known: coarse"):
        PromptingBaseline(None, "shout")  # type: ignore[arg-type]


class Scripted:
    def __init__(self, *replies: str) -> None:
        self.replies, self.heard = list(replies), []

    def reply(self, text, pictures):
        self.heard.append((text, len(pictures)))
        return self.replies.pop(0)


def test_an_unreadable_reply_is_asked_for_once_more():
    talker = Scripted("well...", "no")
    reply = PromptingBaseline(talker, "coarse").ask("Where is the lamp?", [None, None])  # type: ignore[list-item]
    assert reply.refused
    assert len(talker.heard) == 2
    assert talker.heard[1][0].endswith("exactly the form asked for.")
    assert talker.heard[0][1] == 2


def test_a_model_that_never_answers_in_form_does_not_refuse():
    reply = PromptingBaseline(Scripted("?", "?"), "coarse").ask("Where?", [])
    assert not reply.refused
    assert not reply.parsed
