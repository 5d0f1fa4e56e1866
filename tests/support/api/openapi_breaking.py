"""Lists the changes of an OpenAPI document that break clients of the old one.

A request may have to contain less than before, and may contain more. An answer may contain more
than before, and must contain what it contained.
"""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_NARROWER_IF_LESS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
_NARROWER_IF_MORE = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_DEEPEST = 12


def list_breaks(old: Schema, new: Schema) -> list[str]:
    """Return a sentence for each break; an empty list: every client of `old` works with `new`."""
    return list(_Pair(old, new).list_breaks())


class _Pair:
    def __init__(self, old: Schema, new: Schema) -> None:
        self._old, self._new = old, new

    def list_breaks(self) -> Iterator[str]:
        for path, methods in self._old["paths"].items():
            for method, before in methods.items():
                name = f"{method.upper()} {path}"
                after = self._new["paths"].get(path, {}).get(method)
                if after is None:
                    yield f"{name} is gone"
                else:
                    yield from self._compare_operations(name, before, after)

    def _compare_operations(self, name: str, before: Schema, after: Schema) -> Iterator[str]:
        if before["operationId"] != after["operationId"]:
            yield f"{name}: operationId {before['operationId']} is now {after['operationId']}"
        yield from self._compare_parameters(name, before, after)
        yield from self._compare_bodies(name, before.get("requestBody"), after.get("requestBody"))
        for status, answer in before["responses"].items():
            if status.startswith("2"):
                new_answer = after["responses"].get(status)
                yield from self._compare_answers(f"{name}: {status}", answer, new_answer)

    def _compare_parameters(self, name: str, before: Schema, after: Schema) -> Iterator[str]:
        def by_name(operation: Schema) -> dict[tuple[str, str], Schema]:
            return {(p["in"], p["name"]): p for p in operation.get("parameters", [])}

        old, new = by_name(before), by_name(after)
        for key, parameter in old.items():
            if key not in new:
                yield f"{name}: parameter {key[1]} is gone"
                continue
            place = f"{name}: parameter {key[1]}"
            yield from self._compare_sent_schemas(place, parameter["schema"], new[key]["schema"])
        for key, parameter in new.items():
            was_required = old.get(key, {}).get("required", False)
            if parameter.get("required", False) and not was_required:
                yield f"{name}: parameter {key[1]} is now required"

    def _compare_bodies(
        self, name: str, before: Schema | None, after: Schema | None
    ) -> Iterator[str]:
        if after is None:
            return
        if before is None:
            if after.get("required"):
                yield f"{name}: a body is now required"
            return
        for media_type, old_content in before["content"].items():
            if media_type not in after["content"]:
                yield f"{name}: a body of {media_type} is not taken any more"
            else:
                schema = after["content"][media_type]["schema"]
                yield from self._compare_sent_schemas(
                    f"{name}: body", old_content["schema"], schema
                )

    def _compare_answers(self, name: str, before: Schema, after: Schema | None) -> Iterator[str]:
        if after is None:
            yield f"{name} is gone"
            return
        for media_type, old_content in before.get("content", {}).items():
            if media_type not in after.get("content", {}):
                yield f"{name} is not given as {media_type} any more"
            else:
                schema = after["content"][media_type].get("schema", {})
                yield from self._compare_answer_schemas(name, old_content.get("schema", {}), schema)

    def _compare_sent_schemas(
        self, place: str, old: Schema, new: Schema, depth: int = 0
    ) -> Iterator[str]:
        """Yield what a request may no longer contain, or must contain now."""
        old, new = self._resolve_schema(old, self._old), self._resolve_schema(new, self._new)
        if missing := _list_types(old, self._old) - _list_types(new, self._new):
            yield f"{place} is no longer {', '.join(sorted(missing))}"
        if _list_values(old) and (
            missing := _list_values(old) - (_list_values(new) or _list_values(old))
        ):
            yield f"{place} does not take {', '.join(sorted(missing))} any more"
        for bound in _list_narrowed_bounds(old, new):
            yield f"{place}: {bound} is now {new[bound]}"
        for field in set(new.get("required", ())) - set(old.get("required", ())):
            yield f"{place}.{field} is now required"
        takes_any = new.get("additionalProperties") is True
        for field, schema in old.get("properties", {}).items():
            if field not in new.get("properties", {}):
                yield from () if takes_any else (f"{place}.{field} is gone",)
            elif depth < _DEEPEST:
                yield from self._compare_sent_schemas(
                    f"{place}.{field}", schema, new["properties"][field], depth + 1
                )

    def _compare_answer_schemas(
        self, place: str, old: Schema, new: Schema, depth: int = 0
    ) -> Iterator[str]:
        """Yield what an answer no longer contains, and types that a client does not expect."""
        old, new = self._resolve_schema(old, self._old), self._resolve_schema(new, self._new)
        if more := _list_types(new, self._new) - _list_types(old, self._old):
            yield f"{place} may now be {', '.join(sorted(more))}"
        for field in set(old.get("required", ())) - set(new.get("required", ())):
            if field in new.get("properties", {}):
                yield f"{place}.{field} may now be missing"
        for field, schema in old.get("properties", {}).items():
            if field not in new.get("properties", {}):
                yield f"{place}.{field} is gone"
            elif depth < _DEEPEST:
                yield from self._compare_answer_schemas(
                    f"{place}.{field}", schema, new["properties"][field], depth + 1
                )
        if "items" in old and "items" in new and depth < _DEEPEST:
            yield from self._compare_answer_schemas(
                f"{place}[]", old["items"], new["items"], depth + 1
            )

    def _resolve_schema(self, schema: Schema, document: Schema) -> Schema:
        """Return the schema without references; for "an object or null", the object's schema."""
        schema = _follow_reference(schema, document)
        options = [_follow_reference(option, document) for option in schema.get("anyOf", ())]
        solid = [option for option in options if option.get("type") != "null"]
        return {**schema, **solid[0], "anyOf": options} if len(solid) == 1 else schema


def _list_narrowed_bounds(old: Schema, new: Schema) -> Iterator[str]:
    """Yield the names of the bounds that allow less than before."""
    for word in _NARROWER_IF_LESS:
        if word in new and new[word] < old.get(word, float("inf")):
            yield word
    for word in _NARROWER_IF_MORE:
        if word in new and new[word] > old.get(word, float("-inf")):
            yield word
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        yield "pattern"


def _follow_reference(schema: Schema, document: Schema) -> Schema:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _list_types(schema: Schema, document: Schema) -> set[str]:
    schema = _follow_reference(schema, document)
    if "anyOf" in schema:
        return {name for option in schema["anyOf"] for name in _list_types(option, document)}
    kind = schema.get("type", "anything" if not schema.get("properties") else "object")
    return {"number", "integer"} if kind == "number" else {kind}


def _list_values(schema: Schema) -> set[str]:
    return {str(value) for value in schema.get("enum", ())}
