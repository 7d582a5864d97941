"""A profile of a run goes back into the compiler: --profile of fusion-run, --measured of fusion-compile."""
import json

import tiny_llama
from fusion.testing import tools

STATE = ["--kv-cache=state", "--max-context=40"]


class MeasuredTest(tiny_llama.TinyLlamaTest):
    FORMS = ["float"]

    def profile(self, name, *options):
        tools.compile(self.dir / "float.onnx", self.dir / f"{name}.fusion", *STATE, *options)
        tools.must("fusion-run", self.dir / f"{name}.fusion", "--generate=6", "--prompt-ids=5,63,0,17", f"--profile={self.dir / name}.json")
        return self.dir / f"{name}.json"

    def test_shares_are_reported(self):
        """Of the fused form, whose programs are the buckets, and of the unfused one, whose runs are told apart by their rows."""
        for name, options in (("fused", []), ("unfused", ["--disable-fusion=all"])):
            with self.subTest(name):
                profile = self.profile(name, *options)
                events = json.loads(profile.read_text())["traceEvents"]
                for bucket, rows in (("decode", 1), ("prefill", 4)):
                    mine = [e for e in events if e["args"]["rows"] == rows]
                    total = sum(e["dur"] for e in mine)
                    report = json.loads(tools.must("fusion-compile", self.dir / "float.onnx", "-o", self.dir / "again.fusion", *STATE, "--explain=json", f"--measured={profile}"))
                    site = next(s for s in report["sites"] if s["kind"] == "rope_attention")
                    found = next(b for b in site["buckets"] if b["bucket"] == bucket)["measured_share"]
                    # All launches of the kernels that compute one of the site's nodes.
                    split = lambda e: [n for n in e["args"]["site"].split(", ") if not n.startswith(".. ")]
                    kernels = {e["name"] for e in mine if set(split(e)) & set(site["nodes"])}
                    expected = sum(e["dur"] for e in mine if e["name"] in kernels) / total
                    self.assertGreaterEqual(found, expected - 1e-6)
                    self.assertLessEqual(found, 1)

    def test_the_same_profile_gives_the_same_artifact(self):
        profile = self.profile("p")
        for name in ("a", "b"):
            tools.compile(self.dir / "float.onnx", self.dir / f"{name}.fusion", *STATE, f"--measured={profile}")
        self.assertEqual((self.dir / "a.fusion").read_bytes(), (self.dir / "b.fusion").read_bytes())

    def test_wrong_profiles_are_refused(self):
        stranger = {"name": "k", "dur": 1, "args": {"site": "/nowhere", "program": "decode"}}
        for text, says in (("", "JSON|empty|Unexpected"), ("[1]", "traceEvents"), ('{"traceEvents": []}', "no launches"),
                           ('{"traceEvents": [{"name": "k"}]}', "dur"), (json.dumps({"traceEvents": [stranger]}), "no node of this model")):
            with self.subTest(text):
                (self.dir / "bad.json").write_text(text)
                code, _, err = tools.call("fusion-compile", self.dir / "float.onnx", "-o", self.dir / "bad.fusion", f"--measured={self.dir / 'bad.json'}")
                self.assertEqual(code, 1)
                self.assertIn("bad.json", err)
                self.assertRegex(err, says)
                self.assertFalse((self.dir / "bad.fusion").exists())
