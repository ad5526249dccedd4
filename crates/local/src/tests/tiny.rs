//! A model small enough to be made up in a test: every byte is a token, and the weights mean nothing.

use std::io::Write;

use fastrand::Rng;
use tempfile::NamedTempFile;

/// Tokens: one for each byte, a few merges, and three that steer.
pub(crate) const BEGIN: u32 = 260;
pub(crate) const END: u32 = 261;
pub(crate) const CONTEXT: u32 = 2048;

const WIDTH: u64 = 32;
const FEED_FORWARD: u64 = 64;
const KEYS: u64 = 16;
const MERGES: [&str; 4] = ["h e", "l l", "he ll", "Ġ w"];
const F32: u32 = 0;

/// A GGUF file on its way.
#[derive(Default)]
pub(crate) struct GgufWriter {
    entries: Vec<u8>,
    entry_count: u64,
    tensors: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

impl GgufWriter {
    pub(crate) fn entry(&mut self, key: &str, kind: u32, value: &[u8]) {
        text(&mut self.entries, key);
        self.entries.extend(kind.to_le_bytes());
        self.entries.extend(value);
        self.entry_count += 1;
    }

    pub(crate) fn integer(&mut self, key: &str, value: u32) {
        self.entry(key, 4, &value.to_le_bytes());
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) {
        let mut bytes = Vec::new();
        text(&mut bytes, value);
        self.entry(key, 8, &bytes);
    }

    pub(crate) fn texts(&mut self, key: &str, values: &[String]) {
        let mut bytes = 8_u32.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| text(&mut bytes, value));
        self.entry(key, 9, &bytes);
    }

    pub(crate) fn tensor(&mut self, name: &str, shape: &[u64], encoding: u32, data: &[u8]) {
        text(&mut self.tensors, name);
        self.tensors.extend((shape.len() as u32).to_le_bytes());
        shape.iter().for_each(|size| self.tensors.extend(size.to_le_bytes()));
        self.tensors.extend(encoding.to_le_bytes());
        self.tensors.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(data);
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        self.tensor_count += 1;
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend(self.tensor_count.to_le_bytes());
        bytes.extend(self.entry_count.to_le_bytes());
        bytes.extend(&self.entries);
        bytes.extend(&self.tensors);
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(&self.data);
        bytes
    }
}

pub(crate) fn on_disk(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// The whole model.
pub(crate) fn model() -> Vec<u8> {
    let mut writer = GgufWriter::default();
    vocabulary(&mut writer);
    writer.text("general.architecture", "llama");
    for (key, value) in [
        ("block_count", 2),
        ("context_length", CONTEXT),
        ("embedding_length", WIDTH as u32),
        ("feed_forward_length", FEED_FORWARD as u32),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
    ] {
        writer.integer(&format!("llama.{key}"), value);
    }
    let mut random = Rng::with_seed(7);
    let mut data =
        |count: u64| (0..count).flat_map(|_| (random.f32() - 0.5).to_le_bytes()).collect::<Vec<u8>>();
    // Tokens that steer are never the likeliest, because their weights are nothing.
    let steering = vec![0; 3 * WIDTH as usize * size_of::<f32>()];
    writer.tensor("token_embd.weight", &[WIDTH, 263], F32, &[data(260 * WIDTH), steering].concat());
    let mut add = |name: &str, shape: &[u64]| writer.tensor(name, shape, F32, &data(shape.iter().product()));
    add("output_norm.weight", &[WIDTH]);
    for layer in 0..2 {
        for (name, shape) in [
            ("attn_norm", vec![WIDTH]),
            ("attn_q", vec![WIDTH, WIDTH]),
            ("attn_k", vec![WIDTH, KEYS]),
            ("attn_v", vec![WIDTH, KEYS]),
            ("attn_output", vec![WIDTH, WIDTH]),
            ("ffn_norm", vec![WIDTH]),
            ("ffn_gate", vec![WIDTH, FEED_FORWARD]),
            ("ffn_up", vec![WIDTH, FEED_FORWARD]),
            ("ffn_down", vec![FEED_FORWARD, WIDTH]),
        ] {
            add(&format!("blk.{layer}.{name}.weight"), &shape);
        }
    }
    writer.bytes()
}

fn vocabulary(writer: &mut GgufWriter) {
    let mut tokens: Vec<String> =
        (0..=u8::MAX).map(|byte| crate::tokenizer::pack(byte).to_string()).collect();
    tokens.extend(["he", "ll", "hell", "Ġw"].map(String::from));
    tokens.extend(["<|im_start|>", "<|im_end|>", "<tool>"].map(String::from));
    writer.text("tokenizer.ggml.model", "gpt2");
    writer.text("tokenizer.ggml.pre", "smollm");
    writer.texts("tokenizer.ggml.tokens", &tokens);
    writer.texts("tokenizer.ggml.merges", &MERGES.map(String::from));
    let kinds = (0..263_u32).flat_map(|id| if id < 260 { 1_u32 } else { 3 }.to_le_bytes());
    let mut list = 4_u32.to_le_bytes().to_vec();
    list.extend(263_u64.to_le_bytes());
    list.extend(kinds);
    writer.entry("tokenizer.ggml.token_type", 9, &list);
    writer.integer("tokenizer.ggml.eos_token_id", END);
}
