"""Schemas as agents and libraries send them: written by hand after the shapes of real tools (pydantic, zod, MCP, OpenAI's
strict mode)."""

WEATHER = {"type": "object", "properties": {
    "location": {"type": "string", "description": "City and state, e.g. San Francisco, CA"},
    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}, "required": ["location"]}

READ_FILE = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": False,
             "properties": {"file_path": {"type": "string", "description": "Absolute path"},
                            "offset": {"type": "number", "minimum": 0}, "limit": {"type": "integer", "exclusiveMinimum": 0}},
             "required": ["file_path"]}

EDIT_FILE = {"type": "object", "additionalProperties": False, "properties": {
    "file_path": {"type": "string"}, "replace_all": {"type": "boolean", "default": False},
    "edits": {"type": "array", "minItems": 1, "maxItems": 4, "items": {
        "type": "object", "properties": {"old_string": {"type": "string"}, "new_string": {"type": "string"}},
        "required": ["old_string", "new_string"], "additionalProperties": False}}}, "required": ["file_path", "edits"]}

TODO = {"type": "object", "properties": {"todos": {"type": "array", "items": {"type": "object", "properties": {
    "id": {"type": "string", "minLength": 1}, "content": {"type": "string", "minLength": 1},
    "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
    "priority": {"enum": ["high", "medium", "low"]}}, "required": ["content", "status", "id"], "additionalProperties": False}}},
    "required": ["todos"], "additionalProperties": False}

PYDANTIC = {"title": "Order", "type": "object", "$defs": {
    "Item": {"title": "Item", "type": "object", "properties": {
        "sku": {"title": "Sku", "type": "string", "pattern": "^[A-Z]{3}-\\d{4}$"},
        "quantity": {"title": "Quantity", "type": "integer", "exclusiveMinimum": 0, "maximum": 999},
        "price": {"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}], "default": None, "title": "Price"}},
        "required": ["sku", "quantity"]},
    "Status": {"title": "Status", "enum": ["open", "paid", "sent"], "type": "string"}},
    "properties": {"id": {"title": "Id", "type": "string", "format": "uuid"},
                   "created": {"title": "Created", "type": "string", "format": "date-time"},
                   "status": {"$ref": "#/$defs/Status", "default": "open"},
                   "items": {"title": "Items", "type": "array", "items": {"$ref": "#/$defs/Item"}, "minItems": 1, "maxItems": 3},
                   "note": {"anyOf": [{"type": "string", "maxLength": 40}, {"type": "null"}], "default": None}},
    "required": ["id", "created", "items"]}

DISCRIMINATED = {"type": "object", "required": ["pet"], "properties": {"pet": {
    "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}},
    "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}}, "$defs": {
    "Cat": {"type": "object", "properties": {"kind": {"const": "cat", "type": "string"}, "lives": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["kind", "lives"]},
    "Dog": {"type": "object", "properties": {"kind": {"const": "dog", "type": "string"}, "good": {"const": True}},
            "required": ["kind"]}}}

EXPRESSION = {"$ref": "#/$defs/expression", "$defs": {"expression": {"anyOf": [
    {"type": "number"}, {"type": "object", "properties": {"op": {"enum": ["+", "*"]},
     "args": {"type": "array", "items": {"$ref": "#/$defs/expression"}, "minItems": 2, "maxItems": 3}},
     "required": ["op", "args"], "additionalProperties": False}]}}}

MATH_REASONING = {"type": "object", "strict": True, "properties": {"steps": {"type": "array", "items": {"type": "object", "properties": {
    "explanation": {"type": "string"}, "output": {"type": "string"}}, "required": ["explanation", "output"], "additionalProperties": False}},
    "final_answer": {"type": "string"}}, "additionalProperties": False, "required": ["steps", "final_answer"]}

SQL_FILTER = {"type": "object", "properties": {"table": {"type": "string", "pattern": "^[a-z_][a-z0-9_]*$"},
    "where": {"type": "array", "items": {"type": "object", "properties": {"column": {"type": "string"},
        "op": {"enum": ["=", "<", ">", "like"]}, "value": {"type": ["string", "number", "boolean", "null"]}}, "required": ["column", "op", "value"]}},
    "limit": {"type": "integer", "minimum": 1, "maximum": 1000}, "order": {"type": "array", "uniqueItems": True, "items": {"enum": ["asc", "desc"]}}},
    "required": ["table"]}

HEADERS = {"type": "object", "properties": {"url": {"type": "string", "format": "uri"}, "method": {"const": "GET"},
    "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    "query": {"type": "object", "patternProperties": {"^x_[a-z]+$": {"type": "integer"}}, "additionalProperties": False},
    "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 60}}, "required": ["url", "headers", "query"]}

POINT = {"type": "array", "prefixItems": [{"type": "number", "minimum": -90, "maximum": 90}, {"type": "number", "minimum": -180, "maximum": 180}],
         "items": False, "minItems": 2}

EXTENDED = {"allOf": [{"$ref": "#/definitions/base"}, {"type": "object", "properties": {"age": {"type": "integer", "minimum": 18}}, "required": ["age"]}],
            "definitions": {"base": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"maximum": 120}}, "required": ["name"]}}}

WIDE = {"type": "object", "properties": {f"field_{i}": {"type": ["string", "null"], "description": "x" * 50} for i in range(60)},
        "required": [f"field_{i}" for i in range(0, 60, 7)], "additionalProperties": False}

AGENT_SCHEMAS = {name.lower(): value for name, value in list(globals().items()) if name.isupper()}
