"""Who answers and what it knows: small TOML files in assets/scenarios, and the prompt made from them.

A small model ignores facts in a long system prompt and invents its own, so each question travels with the one
fact that fits it, and worked examples in the prefix show how a fact becomes an answer. The prefix is the same
for every turn of a scenario: an engine keeps it in its KV cache.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pipeline.digits import Expected
from pipeline.errors import Code, TurnaroundError
from pipeline.manners import MANNERS
from pipeline.ports import Message, Role
from pipeline.recall import Recall

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "scenarios"
# The last exchange: of 72 questions asked of the small model after 0, 1 and 2 exchanges, 1, 2 and 5 replies were wrong.
HISTORY_MESSAGES = 2
LONGEST_QUESTION = 600  # characters; of a monologue the end is kept, for a small model's context is short
# Shapes were compared by the replies to 48 questions: the question first and the fact last under a plain label kept
# the fact most often, and the words a caller is still saying are then the beginning of the prompt to come. Three
# examples that say the fact as it stands beat six, and beat ones that begin with "Yes, ...".
_LABEL = {"en": "Answer: ", "zh": "回答："}

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
CannedKind = Literal["did_not_hear", "handover", "goodbye", "sorry"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Fact(_Part):
    """Something the agent may say, worded as it would be said."""

    text: Text
    keywords: tuple[Text, ...] = ()  # other words a caller may use for it


class Example(_Part):
    """A worked example: how a fact becomes an answer."""

    question: Text
    fact: Text
    answer: Text


class Canned(_Part):
    """Replies that need no model."""

    did_not_hear: Text
    handover: Text
    goodbye: Text
    sorry: Text


class Number(_Part):
    """A number that callers give: how it is announced, and how many digits it has."""

    cues: tuple[Text, ...] = Field(min_length=1)
    digits: int = Field(ge=2, le=30)


class Scenario(_Part):
    """One agent. Immutable, shared by every visitor."""

    name: Text
    language: Literal["en", "zh"]
    title: Text
    persona: Text
    greeting: Text
    fallback: Text  # what to say when no fact fits
    canned: Canned
    facts: tuple[Fact, ...] = Field(min_length=1)
    examples: tuple[Example, ...] = ()
    numbers: tuple[Number, ...] = ()

    def prefix(self) -> list[Message]:
        """The messages every turn of this scenario begins with: persona, then the worked examples."""
        messages = [Message(Role.SYSTEM, self.persona)]
        for example in self.examples:
            messages.append(Message(Role.USER, self._ask(example.question, example.fact)))
            messages.append(Message(Role.ASSISTANT, example.answer))
        return messages

    def opening(self, history: Sequence[Message]) -> list[Message]:
        """The prefix and the last exchange: known before the next question, so it can be warmed ahead.

        Past questions carry their facts again: that is what the KV cache holds, and a bare question among the
        worked examples teaches the model to answer without a fact.
        """
        recent = [m for m in history if m.role is not Role.SYSTEM][-HISTORY_MESSAGES:]
        while recent and recent[0].role is Role.ASSISTANT:
            recent = recent[1:]  # an answer without its question would break the alternation of roles
        return self.prefix() + [self._asked(m.text) if m.role is Role.USER else m for m in recent]

    def messages(self, history: Sequence[Message], question: str) -> list[Message]:
        """What the model is given for `question`: the opening, then the question with the fact that fits it."""
        return [*self.opening(history), self._asked(question)]

    def fact_for(self, question: str) -> str:
        """The fact that fits the question best; "" when none does."""
        return next((self.facts[i].text for i in self._recall.best(question)), "")

    def reply(self, kind: CannedKind) -> str:
        """A canned reply by its kind."""
        return str(getattr(self.canned, kind))

    def _asked(self, question: str) -> Message:
        return Message(Role.USER, self._ask(question, self.fact_for(question) or self.fallback))

    def _ask(self, question: str, fact: str) -> str:
        return f"{question.strip()[-LONGEST_QUESTION:]}\n{_LABEL[self.language]}{fact}"

    @cached_property
    def expected(self) -> tuple[Expected, ...]:
        """The numbers of known length, for the endpoint."""
        return tuple(Expected(n.cues, n.digits) for n in self.numbers)

    @cached_property
    def _recall(self) -> Recall:
        return Recall([f.text for f in self.facts], [f.keywords for f in self.facts])


def spoken_by(scenario: Scenario, manner: str) -> Scenario:
    """The scenario, its persona told how to word replies in this manner (written Cantonese for Cantonese speech)."""
    writes = MANNERS[manner].writes if manner in MANNERS and scenario.language == "zh" else ""
    return scenario.model_copy(update={"persona": f"{scenario.persona}{writes}"}) if writes else scenario


def names(folder: Path = FOLDER) -> tuple[str, ...]:
    """The scenarios there are, in alphabetical order."""
    return tuple(sorted(p.stem for p in folder.glob("*.toml")))


def load(name: str, folder: Path = FOLDER) -> Scenario:
    """The scenario `name`, read once. TurnaroundError: UNKNOWN_SCENARIO, BAD_SCENARIO."""
    path = folder / f"{name}.toml"
    if name not in names(folder):
        known = ", ".join(names(folder)) or "none"
        raise TurnaroundError(Code.UNKNOWN_SCENARIO, f"there is no scenario {name!r}", f"choose one of: {known}")
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _read(path: Path, _version: int) -> Scenario:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return Scenario.model_validate({"name": path.stem, **content})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _bad(path, str(error)) from error
    except ValidationError as error:
        raise _bad(path, "; ".join(f"{_place(e['loc'])}: {e['msg'].lower()}" for e in error.errors())) from error


def _place(loc: tuple[int | str, ...]) -> str:
    """`facts[2].text` out of pydantic's ("facts", 2, "text"): counted from 1, as a person counts."""
    parts = "".join(f"[{p + 1}]" if isinstance(p, int) else f".{p}" for p in loc)
    return parts.lstrip(".") or "file"


def _bad(path: Path, why: str) -> TurnaroundError:
    return TurnaroundError(Code.BAD_SCENARIO, f"{path.name}: {why}", f"mend assets/scenarios/{path.name}")
