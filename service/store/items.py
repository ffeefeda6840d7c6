"""What owners have: bytes under ids that follow from them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)

from service.store.engine import add_once, reading, writing
from service.store.tables import answers, contents, items, views

KINDS = ("model", "cluster", "plan", "trace", "export")
MOST_LISTED = 1000


class NotFoundError(Exception):
    """The asker has nothing of this name; whether somebody else has is not said."""


class FullError(Exception):
    """What an owner may keep is kept already."""


@dataclass(frozen=True, slots=True)
class Item:
    """Bytes of an owner."""

    id: str
    """Such as `m_0123...`: the kind's first letter, then half of a SHA-256 of name and bytes."""
    kind: str
    name: str
    digest: str
    nbytes: int
    created_at: float
    """Seconds since 1970."""
    facts: Mapping[str, Any]
    """What else is known of it."""

    @property
    def is_ready(self) -> bool:
        """Whether a job has made it, or has read it and found it good."""
        return bool(self.facts.get("state", "ready") == "ready")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        named = {"id": self.id, "name": self.name, "bytes": self.nbytes, "digest": self.digest}
        return {**named, "created_at": self.created_at, **self.facts}


@dataclass(frozen=True, slots=True)
class NewItem:
    """Bytes to be kept."""

    kind: str
    name: str
    content: bytes
    facts: Mapping[str, Any]

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def id(self) -> str:
        """Equal for equal bytes of equal names. A plan's name is not part of what it is."""
        name = "" if self.kind == "plan" else self.name
        both = hashlib.sha256(f"{self.kind}\n{name}\n{self.digest}".encode())
        return f"{self.kind[0]}_{both.hexdigest()[:32]}"


def is_item_id(name: str) -> bool:
    """Whether a name is that of an item and not of something bundled."""
    kind, _, digest = name.partition("_")
    return len(kind) == 1 and len(digest) == 32 and set(digest) <= set("0123456789abcdef")


class Items:
    """The items of the owner who asks."""

    def __init__(self, engine: Engine, most_bytes: int, owner: Callable[[], str]) -> None:
        """Keep so many bytes of an owner at most; `owner` says who asks, or fails."""
        self._engine = engine
        self._most_bytes = most_bytes
        self._asker = owner

    @property
    def owner(self) -> str:
        return self._asker()

    def add(self, new: NewItem) -> Item:
        """Keep bytes, once however often they come.

        Raises:
            FullError: the owner keeps too much.
        """
        with writing(self._engine) as connection:
            return add_item(connection, self.owner, new, self._most_bytes)

    def find(self, item_id: str, kind: str) -> Item:
        """One item.

        Raises:
            NotFoundError: the owner has none of this id and kind.
        """
        with reading(self._engine) as connection:
            row = connection.execute(select(items).where(_named(self.owner, item_id, kind))).first()
        if row is None:
            raise NotFoundError(f"there is no {kind} {item_id[:64]!r}")
        return item_of(row)

    def content(self, item_id: str, kind: str) -> bytes:
        """The bytes of one item.

        Raises:
            NotFoundError: as `find`.
        """
        with reading(self._engine) as connection:
            found = connection.execute(
                select(contents.c.content)
                .join(items, items.c.digest == contents.c.digest)
                .where(_named(self.owner, item_id, kind))
            ).scalar()
        if found is None:
            raise NotFoundError(f"there is no {kind} {item_id[:64]!r}")
        return bytes(found)

    def remove(self, item_id: str, kind: str) -> None:
        """Forget an item, and the answers that name it.

        Raises:
            NotFoundError: the owner has none of this id and kind.
        """
        own = _named(self.owner, item_id, kind)
        with writing(self._engine) as connection:
            digest = connection.execute(select(items.c.digest).where(own)).scalar()
            if digest is None:
                raise NotFoundError(f"there is no {kind} {item_id[:64]!r}")
            connection.execute(delete(items).where(own))
            connection.execute(delete(views).where(*_views_of(self.owner, item_id)))
            connection.execute(
                delete(answers).where(
                    answers.c.owner == self.owner, answers.c.result.contains(item_id)
                )
            )
            others = select(items.c.id).where(items.c.digest == digest)
            if connection.execute(others.limit(1)).first() is None:
                connection.execute(delete(contents).where(contents.c.digest == digest))

    def note(self, item_id: str, kind: str, facts: Mapping[str, Any]) -> Item:
        """Keep what the owner says of an item.

        Raises:
            NotFoundError: the owner has none of this id and kind.
        """
        found = self.find(item_id, kind)
        with writing(self._engine) as connection:
            note_facts(connection, self.owner, found.id, facts)
        return self.find(item_id, kind)

    def names(self, item_ids: Collection[str]) -> dict[str, str]:
        """Labels or names of items, by their ids."""
        wanted = and_(items.c.owner == self.owner, items.c.id.in_(item_ids))
        with reading(self._engine) as connection:
            rows = connection.execute(select(items).where(wanted)).all() if item_ids else ()
        found = map(item_of, rows)
        return {item.id: str(item.facts.get("label") or item.name) for item in found}

    def listed(self, kind: str) -> list[Item]:
        """The items of a kind, the newest first."""
        with reading(self._engine) as connection:
            rows = connection.execute(
                select(items)
                .where(items.c.owner == self.owner, items.c.kind == kind)
                .order_by(items.c.created_at.desc(), items.c.id)
                .limit(MOST_LISTED)
            ).all()
        return [item_of(row) for row in rows]

    def view(self, item_id: str, name: str) -> bytes | None:
        """A view that was kept with an item, if there is one of this name."""
        named = (*_views_of(self.owner, item_id), views.c.name == name)
        with reading(self._engine) as connection:
            found = connection.execute(select(views.c.body).where(*named)).scalar()
        return None if found is None else bytes(found)


def _named(owner: str, item_id: str, kind: str) -> ColumnElement[bool]:
    return and_(items.c.owner == owner, items.c.id == item_id, items.c.kind == kind)


def _views_of(owner: str, item_id: str) -> tuple[ColumnElement[bool], ...]:
    return views.c.owner == owner, views.c.item == item_id


def keep_views(
    connection: Connection, owner: str, item_id: str, found: Mapping[str, bytes]
) -> None:
    """Keep these views of an item in place of older ones, within a transaction."""
    connection.execute(delete(views).where(*_views_of(owner, item_id)))
    for name, body in found.items():
        connection.execute(insert(views).values(owner=owner, item=item_id, name=name, body=body))


def add_item(connection: Connection, owner: str, new: NewItem, most_bytes: int) -> Item:
    """Keep bytes within a transaction."""
    own = (items.c.owner == owner) & (items.c.id == new.id)
    there = connection.execute(select(items).where(own)).first()
    if there is not None:
        if "state" not in new.facts and not item_of(there).is_ready:
            note_facts(connection, owner, new.id, {**new.facts, "state": "ready"})
        return item_of(there)
    kept = connection.execute(
        select(func.coalesce(func.sum(items.c.nbytes), 0)).where(items.c.owner == owner)
    ).scalar_one()
    if int(kept) + len(new.content) > most_bytes:
        raise FullError(f"{kept} of {most_bytes} bytes are kept already")
    add_once(connection, contents, digest=new.digest, content=new.content)
    add_once(
        connection, items, owner=owner, id=new.id, kind=new.kind, name=new.name, digest=new.digest,
        nbytes=len(new.content), created_at=time.time(),
        facts=json.dumps(dict(new.facts), sort_keys=True),
    )  # fmt: skip
    return item_of(connection.execute(select(items).where(own)).one())


def note_facts(connection: Connection, owner: str, item_id: str, facts: Mapping[str, Any]) -> None:
    """Add to what is known of an item; what is `None` is not known, and takes nothing away."""
    own = (items.c.owner == owner) & (items.c.id == item_id)
    old = json.loads(connection.execute(select(items.c.facts).where(own)).scalar_one())
    known = {name: value for name, value in facts.items() if value is not None}
    connection.execute(
        update(items).where(own).values(facts=json.dumps({**old, **known}, sort_keys=True))
    )


def item_of(row: Row[Any]) -> Item:
    """The record of a row."""
    return Item(
        row.id, row.kind, row.name, row.digest, row.nbytes, row.created_at, json.loads(row.facts)
    )
