"""What of a new OpenAPI document breaks clients of the old one.

Of what is sent, less may be asked for and more taken; of what is answered, the other way round.
"""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_NARROWER_IF_LESS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
_NARROWER_IF_MORE = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_DEEPEST = 12


def breaking(old: Schema, new: Schema) -> list[str]:
    """A sentence each; none: every client of the old one goes on."""
    return list(_Pair(old, new).found())


class _Pair:
    def __init__(self, old: Schema, new: Schema) -> None:
        self._old, self._new = old, new

    def found(self) -> Iterator[str]:
        for path, methods in self._old["paths"].items():
            for method, before in methods.items():
                name = f"{method.upper()} {path}"
                after = self._new["paths"].get(path, {}).get(method)
                if after is None:
                    yield f"{name} is gone"
                else:
                    yield from self._operation(name, before, after)

    def _operation(self, name: str, before: Schema, after: Schema) -> Iterator[str]:
        if before["operationId"] != after["operationId"]:
            yield f"{name}: operationId {before['operationId']} is now {after['operationId']}"
        yield from self._parameters(name, before, after)
        yield from self._body(name, before.get("requestBody"), after.get("requestBody"))
        for status, answer in before["responses"].items():
            if status.startswith("2"):
                told = after["responses"].get(status)
                yield from self._answer(f"{name}: {status}", answer, told)

    def _parameters(self, name: str, before: Schema, after: Schema) -> Iterator[str]:
        def by_name(operation: Schema) -> dict[tuple[str, str], Schema]:
            return {(p["in"], p["name"]): p for p in operation.get("parameters", [])}

        old, new = by_name(before), by_name(after)
        for key, parameter in old.items():
            if key not in new:
                yield f"{name}: parameter {key[1]} is gone"
                continue
            place = f"{name}: parameter {key[1]}"
            yield from self._sent(place, parameter["schema"], new[key]["schema"])
        for key, parameter in new.items():
            was = old.get(key, {}).get("required", False)
            if parameter.get("required", False) and not was:
                yield f"{name}: parameter {key[1]} is now required"

    def _body(self, name: str, before: Schema | None, after: Schema | None) -> Iterator[str]:
        if after is None:
            return
        if before is None:
            if after.get("required"):
                yield f"{name}: a body is now required"
            return
        for media_type, said in before["content"].items():
            if media_type not in after["content"]:
                yield f"{name}: a body of {media_type} is not taken any more"
            else:
                schema = after["content"][media_type]["schema"]
                yield from self._sent(f"{name}: body", said["schema"], schema)

    def _answer(self, name: str, before: Schema, after: Schema | None) -> Iterator[str]:
        if after is None:
            yield f"{name} is gone"
            return
        for media_type, said in before.get("content", {}).items():
            if media_type not in after.get("content", {}):
                yield f"{name} is not given as {media_type} any more"
            else:
                schema = after["content"][media_type].get("schema", {})
                yield from self._told(name, said.get("schema", {}), schema)

    def _sent(self, place: str, old: Schema, new: Schema, depth: int = 0) -> Iterator[str]:
        """What was taken must be taken still."""
        old, new = self._plain(old, self._old), self._plain(new, self._new)
        if lost := _types(old, self._old) - _types(new, self._new):
            yield f"{place} is no longer {', '.join(sorted(lost))}"
        if _values(old) and (lost := _values(old) - (_values(new) or _values(old))):
            yield f"{place} does not take {', '.join(sorted(lost))} any more"
        for word in _narrowed(old, new):
            yield f"{place}: {word} is now {new[word]}"
        for field in set(new.get("required", ())) - set(old.get("required", ())):
            yield f"{place}.{field} is now required"
        takes_any = new.get("additionalProperties") is True
        for field, schema in old.get("properties", {}).items():
            if field not in new.get("properties", {}):
                yield from () if takes_any else (f"{place}.{field} is gone",)
            elif depth < _DEEPEST:
                yield from self._sent(
                    f"{place}.{field}", schema, new["properties"][field], depth + 1
                )

    def _told(self, place: str, old: Schema, new: Schema, depth: int = 0) -> Iterator[str]:
        """What was there must be there still, and nothing else may stand in its place."""
        old, new = self._plain(old, self._old), self._plain(new, self._new)
        if more := _types(new, self._new) - _types(old, self._old):
            yield f"{place} may now be {', '.join(sorted(more))}"
        for field in set(old.get("required", ())) - set(new.get("required", ())):
            if field in new.get("properties", {}):
                yield f"{place}.{field} may now be missing"
        for field, schema in old.get("properties", {}).items():
            if field not in new.get("properties", {}):
                yield f"{place}.{field} is gone"
            elif depth < _DEEPEST:
                yield from self._told(
                    f"{place}.{field}", schema, new["properties"][field], depth + 1
                )
        if "items" in old and "items" in new and depth < _DEEPEST:
            yield from self._told(f"{place}[]", old["items"], new["items"], depth + 1)

    def _plain(self, schema: Schema, document: Schema) -> Schema:
        """Without a reference; of an object or nothing, the object."""
        schema = _followed(schema, document)
        options = [_followed(one, document) for one in schema.get("anyOf", ())]
        solid = [one for one in options if one.get("type") != "null"]
        return {**schema, **solid[0], "anyOf": options} if len(solid) == 1 else schema


def _narrowed(old: Schema, new: Schema) -> Iterator[str]:
    """The bounds that are closer than they were."""
    for word in _NARROWER_IF_LESS:
        if word in new and new[word] < old.get(word, float("inf")):
            yield word
    for word in _NARROWER_IF_MORE:
        if word in new and new[word] > old.get(word, float("-inf")):
            yield word
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        yield "pattern"


def _followed(schema: Schema, document: Schema) -> Schema:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _types(schema: Schema, document: Schema) -> set[str]:
    schema = _followed(schema, document)
    if "anyOf" in schema:
        return {name for one in schema["anyOf"] for name in _types(one, document)}
    found = schema.get("type", "anything" if not schema.get("properties") else "object")
    return {"number", "integer"} if found == "number" else {found}


def _values(schema: Schema) -> set[str]:
    return {str(value) for value in schema.get("enum", ())}
