"""Random JSON schemas from the subset that is enforced, each with some instance. Knows jsonschema's vocabulary, nothing of
the engine."""
import random

NAMES = ["name", "id", "city", "count", "tags", "a b", "größe", 'say "hi"', "path/to", "x"]
PATTERNS = ["^[a-z]{2,5}$", "[0-9]+", "^(red|green)-", "^[A-Z][a-z]*( [A-Z][a-z]*)?$", "é?$", "^\\d{3}-\\d{4}$", "a.c"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email", "duration"]


class Schemas:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.defs = {}

    def schema(self):
        top = self.value(0)
        if self.defs:
            top = dict(top)
            top["$defs"] = self.defs
        return top

    def value(self, depth):
        leaf = [self.string, self.integer, self.number, self.literal, self.simple]
        inner = [self.object, self.object, self.array, self.tuple, self.any_of, self.all_of, self.one_of, self.reference]
        return self.random.choice(leaf + (inner * 2 if depth < 3 else []))(depth)

    def maybe(self, chance=0.5):
        return self.random.random() < chance

    def simple(self, depth):
        return self.random.choice([{"type": "boolean"}, {"type": "null"}, {"type": ["integer", "null"]},
                                   {"type": "string", "nullable": True} if False else {"type": ["string", "boolean"]}, {}])

    def string(self, depth):
        kind = self.random.randrange(5)
        if kind == 0:
            return {"type": "string", "pattern": self.random.choice(PATTERNS)}
        if kind == 1:
            return {"type": "string", "format": self.random.choice(FORMATS)}
        out = {"type": "string"}
        if kind >= 3:
            out["minLength"] = self.random.randrange(4)
            if self.maybe():
                out["maxLength"] = out["minLength"] + self.random.randrange(12)
        return out

    def integer(self, depth):
        out = {"type": "integer"}
        low = self.random.choice([-1000, -7, 0, 1, 18, 2024]) + self.random.randrange(5)
        if self.maybe():
            out[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if self.maybe():
            out[self.random.choice(["maximum", "exclusiveMaximum"])] = low + self.random.choice([40, 300, 99999])
        if self.maybe(0.3):
            out["multipleOf"] = self.random.choice([2, 3, 10, 7])
        return out

    def number(self, depth):
        out = {"type": "number"}
        low = self.random.choice([-2.5, 0, 0.125, 1e3, -40.01])
        if self.maybe():
            out[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if self.maybe():
            out[self.random.choice(["maximum", "exclusiveMaximum"])] = low + self.random.choice([0.75, 12, 1e6])
        return out

    def literal(self, depth):
        values = ["red", "green", "say \"hi\"\n", "é", 1, -2.5, None, True, [1, "a"], {"k": [None]}]
        if self.maybe(0.4):
            return {"const": self.random.choice(values)}
        return {"enum": self.random.sample(values, self.random.randrange(1, 5))}

    def object(self, depth):
        names = self.random.sample(NAMES, self.random.randrange(0, 5))
        out = {"type": "object", "properties": {name: self.value(depth + 1) for name in names}}
        if names:
            out["required"] = self.random.sample(names, self.random.randrange(0, len(names) + 1))
        kind = self.random.randrange(6)
        if kind == 0:
            out["additionalProperties"] = False
        elif kind == 1:
            out["additionalProperties"] = self.string(depth)
        elif kind == 2:
            out["patternProperties"] = {"^p_": self.integer(depth), "_q$": {"type": ["integer", "boolean"]}}
        elif kind == 3:
            out["additionalProperties"] = True
            out["propertyNames"] = {"maxLength": 8}
            out["properties"] = {k: v for k, v in out["properties"].items() if len(k) <= 8}
            out["required"] = [k for k in out.get("required", []) if len(k) <= 8]
            out["minProperties"] = len(out["required"]) + self.random.randrange(2)
            out["maxProperties"] = out["minProperties"] + self.random.randrange(3)
        return out

    def array(self, depth):
        out = {"type": "array", "items": self.value(depth + 1)}
        if self.maybe():
            out["minItems"] = self.random.randrange(3)
        if self.maybe():
            out["maxItems"] = out.get("minItems", 0) + self.random.randrange(4)
        if self.maybe(0.2):
            out["items"] = {"enum": ["a", "b", 3, None]}
            out["uniqueItems"] = True
            out.pop("minItems", None)
        return out

    def tuple(self, depth):
        items = [self.value(depth + 1) for _ in range(self.random.randrange(1, 4))]
        out = {"type": "array", "prefixItems": items, "minItems": self.random.randrange(len(items) + 1)}
        if self.maybe():
            out["items"] = self.random.choice([False, self.value(depth + 1)])
        return out

    def any_of(self, depth):
        return {"anyOf": [self.value(depth + 1) for _ in range(self.random.randrange(1, 4))]}

    def all_of(self, depth):
        parts = []
        for name in self.random.sample(NAMES, self.random.randrange(1, 3)):
            parts.append({"type": "object", "properties": {name: self.value(depth + 1)}, "required": [name]})
        return {"allOf": parts}

    def one_of(self, depth):
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": kind}, "v": self.value(depth + 1)},
                           "required": ["kind"]} for kind in ["one", "two"]] + [{"type": "null"}]}

    def reference(self, depth):
        """A tree: recursive, with an end."""
        self.defs["tree"] = {"type": "object", "properties": {
            "label": {"type": "string", "maxLength": 5},
            "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}}, "required": ["label"]}
        return {"$ref": "#/$defs/tree"}
