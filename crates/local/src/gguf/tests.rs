//! Tests of the file reader: what it reads, and that nothing in a file can hurt.

use proptest::prelude::*;

use super::*;
use crate::tests::tiny::{self, GgufWriter, on_disk};

fn open(bytes: &[u8]) -> Result<Gguf, GgufError> {
    Gguf::open(on_disk(bytes).path())
}

fn row(encoding: u32, columns: u64, data: &[u8]) -> Vec<f32> {
    let mut writer = GgufWriter::default();
    writer.tensor("t", &[columns], encoding, data);
    open(&writer.bytes()).unwrap().vector("t", usize::try_from(columns).unwrap()).unwrap()
}

const ONE: [u8; 2] = [0x00, 0x3c];
const TWO: [u8; 2] = [0x00, 0x40];

#[test]
fn facts_and_weights_are_read() {
    let mut file = open(&tiny::model()).unwrap();
    assert_eq!(file.text("general.architecture"), Some("llama"));
    assert_eq!(file.integer::<u32>("llama.block_count"), Some(2));
    assert_eq!(file.integer::<u32>("general.architecture"), None);
    assert_eq!(file.list("tokenizer.ggml.tokens").unwrap().len(), 263);
    let tensor = file.tensor("blk.0.attn_k.weight").unwrap();
    assert_eq!((tensor.columns, tensor.rows), (32, 16));
    let mut rows = 0;
    file.rows("blk.0.attn_k.weight", |row| rows += usize::from(row.iter().all(|value| value.abs() <= 0.5)))
        .unwrap();
    assert_eq!(rows, 16);
    assert!(matches!(file.vector("blk.0.attn_k.weight", 32), Err(GgufError::Shape(_))));
    assert!(matches!(file.rows("none", |_| ()), Err(GgufError::NoTensor(_))));
}

#[test]
fn small_blocks_are_unpacked() {
    assert_eq!(row(0, 1, &1.5_f32.to_le_bytes()), [1.5]);
    let halves = [[0x00, 0x3c], [0x00, 0xc0], [0x01, 0x00], [0xff, 0x7b], [0x00, 0x80]].concat();
    assert_eq!(row(1, 5, &halves), [1.0, -2.0, 5.960_464_5e-8, 65504.0, -0.0]);
    assert!(row(1, 1, &[0x00, 0x7c])[0].is_infinite() && row(1, 1, &[0x01, 0x7e])[0].is_nan());
    assert_eq!(row(30, 2, &[0x80, 0x3f, 0x40, 0xc0]), [1.0, -3.0]);
    let packed: Vec<u8> = (0..16).map(|index| index | ((15 - index) << 4)).collect();
    let low_then_high = |index: usize| if index < 16 { index as f32 } else { (31 - index) as f32 };
    let numbers =
        |scale: f32, min: f32| (0..32).map(|index| scale * low_then_high(index) + min).collect::<Vec<f32>>();
    assert_eq!(row(2, 32, &[&TWO[..], &packed].concat()), numbers(2.0, -16.0));
    assert_eq!(row(3, 32, &[&TWO[..], &ONE, &packed].concat()), numbers(2.0, 1.0));
    let fifth = [0, 0, 0, 0];
    assert_eq!(row(6, 32, &[&ONE[..], &fifth, &packed].concat()), numbers(1.0, -16.0));
    assert_eq!(row(7, 32, &[&ONE[..], &TWO, &[255; 4], &packed].concat()), numbers(1.0, 18.0));
    let bytes: Vec<u8> = (0..32_u8).map(|index| index.wrapping_sub(16)).collect();
    assert_eq!(
        row(8, 32, &[&TWO[..], &bytes].concat()),
        (-16..16).map(|n| 2.0 * n as f32).collect::<Vec<_>>()
    );
}

#[test]
fn large_blocks_are_unpacked() {
    // Scales 1 to 8 and minima 0, in the six-bit packing.
    let scales = [1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8];
    let q4 = row(12, 256, &[&ONE[..], &TWO, &scales, &[0x21; 128]].concat());
    for (part, values) in q4.chunks(32).enumerate() {
        let expected = (part + 1) as f32 * if part % 2 == 0 { 1.0 } else { 2.0 };
        assert!(values.iter().all(|value| *value == expected), "{part}: {values:?}");
    }
    let q5 = row(13, 256, &[&ONE[..], &TWO, &scales, &[0b10; 32], &[0x21; 128]].concat());
    assert_eq!((q5[0], q5[32], q5[64]), (1.0, 2.0 * 18.0, 3.0));
    let q6 = row(14, 256, &[&[0x21; 128][..], &[0b1110_0100; 64], &[2; 16], &ONE].concat());
    let expected = |run: usize| 2.0 * ([1.0, 17.0, 34.0, 50.0][run] - 32.0);
    for (run, values) in q6.chunks(32).enumerate() {
        assert!(values.iter().all(|value| *value == expected(run % 4)), "{run}: {values:?}");
    }
}

#[test]
fn what_is_no_such_file_says_so() {
    assert!(matches!(open(b""), Err(GgufError::Length)));
    assert!(matches!(open(b"PK\x03\x04 a zip file"), Err(GgufError::Magic)));
    assert!(matches!(open(b"GGUF\x01\0\0\0"), Err(GgufError::Version(1))));
    let mut many = b"GGUF\x03\0\0\0".to_vec();
    many.extend([255; 16]);
    assert!(matches!(open(&many), Err(GgufError::Length)));
    let mut writer = GgufWriter::default();
    writer.entry("general.alignment", 4, &0_u32.to_le_bytes());
    assert!(matches!(open(&writer.bytes()), Err(GgufError::NoEntry(_))));
    let mut writer = GgufWriter::default();
    writer.entry("strange", 99, &[]);
    assert!(matches!(open(&writer.bytes()), Err(GgufError::Kind(99))));
    let nested = [9_u32.to_le_bytes().to_vec(), 1_u64.to_le_bytes().to_vec()].concat().repeat(100);
    let mut writer = GgufWriter::default();
    writer.entry("deep", 9, &nested);
    assert!(matches!(open(&writer.bytes()), Err(GgufError::Length)));
}

#[test]
fn tensors_of_absurd_shapes_are_refused() {
    for shape in [&[][..], &[0], &[33], &[u64::MAX], &[1 << 40, 1 << 40], &[32; 5]] {
        let mut writer = GgufWriter::default();
        writer.tensor("t", shape, 8, &[0; 34]);
        assert!(matches!(open(&writer.bytes()), Err(GgufError::Shape(_))), "{shape:?}");
    }
    let mut writer = GgufWriter::default();
    writer.tensor("t", &[64], 8, &[0; 34]);
    assert!(matches!(open(&writer.bytes()), Err(GgufError::Shape(_))), "it would reach past the end");
    let mut writer = GgufWriter::default();
    writer.tensor("t", &[32], 77, &[0; 34]);
    assert!(matches!(open(&writer.bytes()), Err(GgufError::Encoding { encoding: 77, .. })));
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    let whole = tiny::model();
    for length in (0..whole.len()).step_by(997).chain([whole.len() - 33]) {
        assert!(open(&whole[..length]).is_err(), "cut to {length} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_change_to_a_file_makes_it_panic(at in 0..8_000_usize, byte: u8, more in proptest::collection::vec(any::<u8>(), 0..16)) {
        let mut bytes = tiny::model();
        bytes[at] = byte;
        let middle = at.saturating_sub(40);
        bytes.splice(middle..middle + more.len(), more);
        let file = on_disk(&bytes);
        if let Ok(mut gguf) = Gguf::open(file.path()) {
            let _ = crate::tokenizer::Tokenizer::load(&gguf);
            let _ = crate::llama::load(&mut gguf, 64);
        }
    }
}
