"""Joins of random topologies."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from semantics.sketch import Draw, Handle, Json, Sketch, move, pick, serdes

# Joins -----------------------------------------------------------------------------------------


def joiner(draw: Draw, left: Handle, right: Handle) -> tuple[str, str]:
    """A matching joiner, and the type of its result."""
    options = [("pair_text", "string"), ("null_if_right_x", "string")]
    if left.kind == "stream":
        # Joiners of tables get no key.
        options.append(("key_pair_text", "string"))
    if (left.value, right.value) == ("long", "long"):
        options.append(("sum_nullable", "long"))
    return draw(st.sampled_from(options))  # type: ignore[no-any-return]


def joined(
    sketch: Sketch, draw: Draw, left_kind: str, right_kind: str, ops: tuple[str, ...]
) -> tuple[Handle, Handle, Json, str, str] | None:
    """Choose both sides (possibly the same one), the operator and the joiner."""
    lefts = sketch.of(left_kind, windowed=False)
    rights = sketch.of(right_kind, windowed=False)
    if right_kind == "table":
        # A suppressed table can't be read by key, and the engine reports that.
        lefts, rights = ([handle for handle in side if handle.readable] for side in (lefts, rights))
    if not lefts or not rights:
        return None
    left, right = pick(draw, lefts), pick(draw, rights)
    fn, value = joiner(draw, left, right)
    return left, right, {"from": left.id, "other": right.id, "joiner": fn}, value, draw(st.sampled_from(ops))


def join_serdes(left: Handle, right: Handle) -> Json:
    return {**serdes(left), "other_value_serde": right.value}


WINDOWS = [(before, after) for before in (0, 5, 10) for after in (0, 5, 10)] + [(-5, 5), (-5, 10), (10, -5), (5, -5)]
"""Before and after: windows around a record, and on one side of it."""


@move("plain stream")
def join_streams(sketch: Sketch, draw: Draw) -> bool:
    return streams_joined(sketch, draw, ("join",))


@move("plain stream")
def join_streams_outer(sketch: Sketch, draw: Draw) -> bool:
    return streams_joined(sketch, draw, ("left_join", "outer_join"))


def streams_joined(sketch: Sketch, draw: Draw, ops: tuple[str, ...]) -> bool:
    found = joined(sketch, draw, "stream", "stream", ops)
    if found is None:
        return False
    left, right, fields, value, op = found
    bounds = st.sampled_from((0, 5, 10))
    reach = draw(st.sampled_from(WINDOWS))
    window = {"before_ms": reach[0], "after_ms": reach[1], "grace_ms": draw(bounds)}
    names = {"name": sketch.name("join-"), "store_name": sketch.name("join-store-")}
    sketch.give(Handle(sketch.step(op, **fields, window=window, **join_serdes(left, right), **names), "stream", value))
    return True


@move("plain stream", "plain table")
def join_table(sketch: Sketch, draw: Draw) -> bool:
    found = joined(sketch, draw, "stream", "table", ("join", "left_join"))
    if found is None:
        return False
    left, right, fields, value, op = found
    more = {}
    if (
        right.versioned
        and any(s["id"] == right.id and s["op"] == "table" for s in sketch.steps)
        and draw(st.booleans())
    ):
        # A left join with a null key and grace makes Kafka Streams 4.1.2 throw.
        op, more = "join", {"grace_ms": draw(st.sampled_from((5, 20)))}
    made = sketch.step(op, **fields, **join_serdes(left, right), name=sketch.name("join-"), **more)
    sketch.give(Handle(made, "stream", value))
    return True


@move("plain stream", "global_table")
def join_global_table(sketch: Sketch, draw: Draw) -> bool:
    found = joined(sketch, draw, "stream", "global_table", ("join", "left_join"))
    if found is None:
        return False
    left, _, fields, value, op = found
    key_fns = ("same_key", "value_as_key", "first_char") if left.value == "string" else ("same_key", "const_all")
    made = sketch.step(op, **fields, key_fn=draw(st.sampled_from(key_fns)))
    sketch.give(replace(left, id=made, value=value))
    return True


@move("plain table")
def join_tables(sketch: Sketch, draw: Draw) -> bool:
    found = joined(sketch, draw, "table", "table", ("join", "left_join", "outer_join"))
    if found is None:
        return False
    _, _, fields, value, op = found
    # With a named store, with one that has no name, and as a view of both sides.
    how = draw(st.sampled_from(("view", "store", "nameless store")))
    kept = sketch.store(value)
    if how == "nameless store":
        del kept["store"]
    made = sketch.step(op, **fields, **({} if how == "view" else {"materialized": kept}), name=sketch.name("join-"))
    sketch.give(Handle(made, "table", value, stored=how == "store", typed=how != "view"))
    return True


@move("plain table")
def join_by_foreign_key(sketch: Sketch, draw: Draw) -> bool:
    found = joined(sketch, draw, "table", "table", ("join", "left_join"))
    if found is None:
        return False
    left, right, fields, value, op = found
    if not (left.typed and right.typed):
        return False
    fk_fn = draw(st.sampled_from(("text_fk", "key_prefix_fk") if left.value == "string" else ("key_prefix_fk",)))
    stored = draw(st.booleans())
    kept = sketch.store(value) if stored else {"key_serde": left.key, "value_serde": value}
    # A name alone also names the store here (docs/adr/0007).
    named = {"name": sketch.name("join-")} if stored else {}
    made = sketch.step(op, **fields, fk_fn=fk_fn, materialized=kept, **named)
    sketch.give(Handle(made, "table", value, stored=stored))
    return True
