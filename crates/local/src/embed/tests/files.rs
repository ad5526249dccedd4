//! A folder that is broken, cut short or made to harm is refused with a reason.

use std::fs;

use serde_json::{Value, json};

use super::super::load::{self, Pooling};
use super::super::{EmbedderLoadError, Network};
use super::tiny::{HIDDEN, POSITIONS, Tiny, WORDS, config, safetensors, tokenizer};

const WORD_TABLE: &str = "embeddings.word_embeddings.weight";

fn refusal(tiny: &Tiny) -> String {
    let error = Network::read(tiny.folder.path()).err().unwrap();
    let (EmbedderLoadError::Read { path, .. } | EmbedderLoadError::Unfit { path, .. }) = &error else {
        panic!("{error}");
    };
    error.to_string().replace(&path.display().to_string(), path.file_name().unwrap().to_str().unwrap())
}

fn with(mut value: Value, key: &str, new: Value) -> Value {
    value[key] = new;
    value
}

#[test]
fn sizes_out_of_range_are_refused() {
    let tiny = Tiny::new("mean");
    for (key, value, expected) in [
        ("hidden_size", json!(0), "hidden_size is 0, not from 1 to 8192"),
        ("hidden_size", json!(8193), "hidden_size is 8193, not from 1 to 8192"),
        ("hidden_size", json!(-1), "invalid value: integer `-1`, expected usize"),
        ("num_hidden_layers", json!(97), "num_hidden_layers is 97, not from 1 to 96"),
        ("num_attention_heads", json!(0), "num_attention_heads is 0, not from 1 to 96"),
        ("num_attention_heads", json!(5), "5 heads cannot divide 96 dimensions evenly"),
        ("intermediate_size", json!(80), "hidden_size and intermediate_size have to be multiples of 32"),
        ("vocab_size", json!(u64::MAX), "vocab_size is 18446744073709551615, not from 1 to 1048576"),
        ("max_position_embeddings", json!(2), "max_position_embeddings is 2, not from 3 to 8192"),
        ("layer_norm_eps", json!(0.0), "layer_norm_eps is 0"),
        ("hidden_act", json!("gelu_new"), "only BERT with GELU and absolute positions is supported"),
        ("model_type", json!("roberta"), "only BERT with GELU and absolute positions is supported"),
        (
            "position_embedding_type",
            json!("relative_key"),
            "only BERT with GELU and absolute positions is supported",
        ),
    ] {
        tiny.write("config.json", &with(config(), key, value));
        let refusal = refusal(&tiny);
        assert!(refusal.starts_with(&format!("config.json cannot be used: {expected}")), "{refusal}");
    }
}

#[test]
fn tensors_that_are_missing_or_of_another_shape_are_refused() {
    let mut tiny = Tiny::new("mean");
    let table = tiny.tensors.remove(WORD_TABLE).unwrap();
    tiny.save();
    let refused = |what: &str| format!("model.safetensors cannot be used: the tensor {WORD_TABLE} {what}");
    assert_eq!(refusal(&tiny), refused("is missing"));
    tiny.tensors.insert(WORD_TABLE.into(), (vec![HIDDEN, WORDS.len()], table.1.clone()));
    tiny.save();
    assert_eq!(refusal(&tiny), refused("has the shape [96, 12], not [12, 96]"));
    tiny.tensors.insert(WORD_TABLE.into(), (table.0.clone(), vec![f32::NAN; table.1.len()]));
    tiny.save();
    assert_eq!(refusal(&tiny), refused("has a value that is not a number (NaN)"));
}

#[test]
fn a_header_that_lies_about_its_tensors_is_refused() {
    let tiny = Tiny::new("mean");
    let file = safetensors(&tiny.tensors);
    let length = usize::try_from(u64::from_le_bytes(*file.first_chunk().unwrap())).unwrap();
    let header: Value = serde_json::from_slice(&file[8..8 + length]).unwrap();
    for (key, value, expected) in [
        ("dtype", json!("F16"), "is F16, not F32"),
        ("data_offsets", json!([0, 8]), "is outside the file, according to its shape"),
        ("data_offsets", json!([8, 0]), "is outside the file, according to its shape"),
        ("data_offsets", json!([u64::MAX - 4607, u64::MAX]), "is outside the file, according to its shape"),
    ] {
        let mut header = header.clone();
        header[WORD_TABLE][key] = value;
        let header = header.to_string();
        let forged = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &file[8 + length..]].concat();
        fs::write(tiny.folder.path().join("model.safetensors"), forged).unwrap();
        let expected = format!("model.safetensors cannot be used: the tensor {WORD_TABLE} {expected}");
        assert_eq!(refusal(&tiny), expected);
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let tiny = Tiny::new("mean");
    let file = safetensors(&tiny.tensors);
    for length in (0..64).chain((64..file.len()).step_by(997)).chain([file.len() - 1]) {
        fs::write(tiny.folder.path().join("model.safetensors"), &file[..length]).unwrap();
        assert!(refusal(&tiny).starts_with("model.safetensors "), "{length}");
    }
    let endless = [&u64::MAX.to_le_bytes(), &file[8..]].concat();
    fs::write(tiny.folder.path().join("model.safetensors"), endless).unwrap();
    let expected = "model.safetensors cannot be used: its header would have 18446744073709551615 bytes";
    assert_eq!(refusal(&tiny), expected);
}

#[test]
fn a_tokenizer_of_another_network_is_refused() {
    let tiny = Tiny::new("mean");
    for (key, value, expected) in [
        ("type", json!("BPE"), "its tokenizer is BPE, not WordPiece"),
        ("vocab", json!({ "[UNK]": 1, "[SEP]": 2 }), "it lacks the token [CLS]"),
        ("vocab", json!({ "far": 12 }), "the token \"far\" is beyond the 12 tokens of the model"),
        ("unk_token", json!("<unk>"), "it lacks the token <unk>"),
    ] {
        let mut tokenizer = tokenizer();
        tokenizer["model"][key] = value;
        tiny.write("tokenizer.json", &tokenizer);
        assert_eq!(refusal(&tiny), format!("tokenizer.json cannot be used: {expected}"));
    }
}

#[test]
fn how_to_pool_is_read_and_never_guessed() {
    for (name, expected) in [("mean", Pooling::Mean), ("cls", Pooling::First)] {
        assert_eq!(load::pooling(Tiny::new(name).folder.path()).unwrap(), expected);
    }
    let tiny = Tiny::new("mean");
    let either =
        "config.json cannot be used: it must select exactly one of mean pooling and first-token pooling";
    for file in [
        json!({}),
        json!({ "pooling_mode_max_tokens": true }),
        json!({ "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true }),
    ] {
        tiny.write("1_Pooling/config.json", &file);
        assert_eq!(refusal(&tiny), either);
    }
    fs::remove_file(tiny.folder.path().join("1_Pooling/config.json")).unwrap();
    assert!(refusal(&tiny).starts_with("config.json cannot be read: "));
}

#[test]
fn texts_are_as_long_as_the_model_was_trained_for_and_never_longer_than_its_positions() {
    let tiny = Tiny::new("mean");
    let max_tokens = || load::max_tokens(tiny.folder.path(), POSITIONS);
    assert_eq!(max_tokens().unwrap(), POSITIONS);
    for (length, expected) in [(3, 3), (16, 16), (POSITIONS, POSITIONS), (POSITIONS + 1, POSITIONS)] {
        tiny.write("sentence_bert_config.json", &json!({ "max_seq_length": length }));
        assert_eq!(max_tokens().unwrap(), expected);
    }
    tiny.write("sentence_bert_config.json", &json!({ "max_seq_length": 2 }));
    assert!(refusal(&tiny).ends_with("max_seq_length is 2, fewer than 3"));
}
