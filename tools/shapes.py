#!/usr/bin/env python3
"""Writes src/wire/guard/shapes.rs: the shape of every message, from Kafka's own schemas.

The schemas are the JSON files under common/message/ in the kafka-clients jar. The jar is looked for in
$KAFKA_CLIENTS_JAR, then in the local Maven repository; `--fetch` lets Maven download it first.

  tools/shapes.py           write the table
  tools/shapes.py --check   exit with 1 if the committed table differs from the schemas
  tools/shapes.py --locate  print where the jar is
Exit code 3: the jar is not there.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

KAFKA = "4.4.0"
ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/wire/guard/shapes.rs"
API_SOURCE = ROOT / "src/wire/api.rs"

# name in the table, bytes on the wire
FIXED = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16}
# Bytes that a value takes in memory once decoded: `Bytes` has four words, `Vec` and `BTreeMap` have three.
TEXT_MEMORY, ARRAY_MEMORY, TAGS_MEMORY = 32, 24, 24
LAST = 32767


def locate_jar(fetch):
    named = os.environ.get("KAFKA_CLIENTS_JAR")
    if named:
        return pathlib.Path(named)
    repository = pathlib.Path.home() / ".m2/repository/org/apache/kafka/kafka-clients"
    jar = repository / KAFKA / f"kafka-clients-{KAFKA}.jar"
    if fetch and not jar.exists():
        artifact = f"org.apache.kafka:kafka-clients:{KAFKA}"
        subprocess.run(["mvn", "-q", "-B", "dependency:get", f"-Dartifact={artifact}", "-Dtransitive=false"], check=True)
    return jar


def schemas(jar):
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith("common/message/") and name.endswith(".json"):
                text = archive.read(name).decode()
                # Comments stand on lines of their own, or behind a value; no string in the schemas holds " //".
                yield json.loads(re.sub(r"(?m)(^|\s)//[^\"\n]*$|^\s*//.*$", "", text))


def span(text):
    """A range of versions as a pair; None for no version."""
    if text is None or text == "none":
        return None
    if text.endswith("+"):
        return int(text[:-1]), LAST
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def clip(one, other):
    if one is None or other is None:
        return None
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low <= high else None


class Message:
    """One request or response, and the structs inside it as Rust statics."""

    def __init__(self, schema):
        self.name = schema["name"]
        self.versions = span(schema["validVersions"])
        self.flexible = span(schema["flexibleVersions"])
        self.common = {struct["name"]: struct for struct in schema.get("commonStructs", [])}
        self.statics, self.memory = [], {}
        self.struct(self.name, schema["fields"])

    def static_name(self, struct):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", struct).upper()
        own = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).upper()
        return own if struct == self.name else f"{own}__{words}"

    def struct(self, name, fields):
        """Emits the struct once, innermost structs first."""
        if name in self.memory:
            return
        self.memory[name] = 0
        lines = [line for line in (self.field(field) for field in fields) if line]
        memory = TAGS_MEMORY + sum(self.memory_of(field["type"]) for field in fields)
        self.memory[name] = (memory + 7) // 8 * 8
        body = "".join(f"    {line},\n" for line in lines)
        static = self.static_name(name)
        self.statics.append(f"static {static}: Struct = Struct {{ memory: {self.memory[name]}, fields: &[\n{body}] }};\n")

    def memory_of(self, kind):
        if kind.startswith("[]"):
            return ARRAY_MEMORY
        if kind in FIXED:
            return FIXED[kind]
        if kind in ("string", "bytes", "records"):
            return TEXT_MEMORY
        return self.memory[kind]

    def field(self, field):
        if field["type"].lstrip("[]")[0].isupper():
            name = field["type"].lstrip("[]")
            self.struct(name, field.get("fields") or self.common[name]["fields"])
        versions = clip(span(field["versions"]), self.versions)
        if versions is None:
            return None
        text = f'field("{field["name"]}", {self.kind(field["type"])}, {versions[0]}, {versions[1]})'
        nullable = clip(span(field.get("nullableVersions")), versions)
        if nullable:
            if field["type"][0].isupper():
                raise SystemExit(f"{self.name}.{field['name']}: a nullable struct; the walker has no case for it")
            text += f".nullable({nullable[0]}, {nullable[1]})"
        tagged = clip(span(field.get("taggedVersions")), versions)
        if tagged:
            if tagged != versions:
                raise SystemExit(f"{self.name}.{field['name']}: tagged in some versions only")
            text += f".tagged({field['tag']})"
        if "flexibleVersions" in field:
            raise SystemExit(f"{self.name}.{field['name']}: flexible versions of its own")
        return text

    def kind(self, kind):
        if kind.startswith("[]"):
            return f"Array(&{self.kind(kind[2:])})"
        if kind in FIXED:
            return f"Fixed({FIXED[kind]})"
        if kind in ("string", "bytes", "records"):
            return {"string": "Text", "bytes": "Blob", "records": "Blob"}[kind]
        return f"Struct(&{self.static_name(kind)})"

    def entry(self):
        flexible = self.flexible[0] if self.flexible else LAST
        root = self.static_name(self.name)
        return f"Message {{ min: {self.versions[0]}, max: {self.versions[1]}, flexible: {flexible}, root: &{root} }}"


def render(jar):
    wanted = re.findall(r"^    (\w+) = (\d+),$", API_SOURCE.read_text(), re.MULTILINE)
    found = {(s.get("apiKey"), s["type"]): s for s in schemas(jar)}
    statics, requests, responses = [], [], []
    for api, key in wanted:
        for kind, arms in (("request", requests), ("response", responses)):
            message = Message(found[int(key), kind])
            statics.extend(message.statics)
            arms.append(f"        Api::{api} => {message.entry()},\n")
    return (
        f"// Generated by tools/shapes.py from the schemas of Kafka {KAFKA}; do not edit.\n"
        "//! The shape of every message: generated, see `tools/shapes.py`.\n\n"
        "use super::shape::{Kind::{Array, Blob, Fixed, Struct as Nested, Text}, Message, Struct, field};\n"
        "use crate::wire::api::Api;\n\n"
        + "".join(statics).replace("Struct(&", "Nested(&")
        + "\npub(super) fn request(api: Api) -> Message {\n    match api {\n" + "".join(requests) + "    }\n}\n"
        + "\npub(super) fn response(api: Api) -> Message {\n    match api {\n" + "".join(responses) + "    }\n}\n"
    )


def main(arguments):
    jar = locate_jar("--fetch" in arguments)
    if not jar.exists():
        print(f"no {jar}; set KAFKA_CLIENTS_JAR, or let --fetch download it", file=sys.stderr)
        return 3
    if "--locate" in arguments:
        print(jar)
        return 0
    table = render(jar)
    if "--check" not in arguments:
        TABLE.write_text(table)
        return 0
    if TABLE.read_text() == table:
        return 0
    print(f"{TABLE.relative_to(ROOT)} differs from the schemas of Kafka {KAFKA}: run tools/shapes.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
