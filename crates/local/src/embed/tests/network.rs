//! The whole network against the plain one, on every kind of machine.

use super::super::bert::{Bert, Room};
use super::super::cpu::Cpu;
use super::super::load::Pooling;
use super::tiny::{HIDDEN, POSITIONS, Tiny, WORDS};

const NEAR: f64 = 1e-5;

/// Texts of the shortest and the longest lengths, and of some around the size of a tile.
fn texts() -> Vec<Vec<u32>> {
    let mut random = fastrand::Rng::with_seed(3);
    let lengths = [2, 1, 7, 8, 9, 31, 32, 33, POSITIONS];
    lengths.map(|length| (0..length).map(|_| random.u32(..WORDS.len() as u32)).collect()).into()
}

fn expected(tiny: &Tiny, ids: &[u32], pooling: Pooling) -> Vec<f64> {
    let rows = tiny.rows(ids);
    let pooled: Vec<f64> = match pooling {
        Pooling::Mean => {
            (0..HIDDEN).map(|at| rows.iter().map(|row| row[at]).sum::<f64>() / rows.len() as f64).collect()
        }
        Pooling::First => rows[0].clone(),
    };
    let length = pooled.iter().map(|value| value * value).sum::<f64>().sqrt();
    pooled.iter().map(|value| value / length).collect()
}

#[test]
fn vectors_are_those_of_the_plain_network() {
    let tiny = Tiny::new("mean");
    for pooling in [Pooling::Mean, Pooling::First] {
        for cpu in Cpu::all() {
            let bert = Bert::read(tiny.folder.path(), pooling, cpu).unwrap();
            let texts = texts();
            let vectors = bert.embed(&texts, &mut Room::default());
            assert_eq!(vectors.len(), texts.len());
            for (text, vector) in texts.iter().zip(vectors) {
                let expected = expected(&tiny, text, pooling);
                let distance = vector.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs());
                let distance = distance.fold(0.0, f64::max);
                assert!(
                    vector.len() == HIDDEN && distance < NEAR,
                    "{pooling:?} {cpu:?} {}: {distance}",
                    text.len()
                );
            }
        }
    }
}

#[test]
fn a_vector_is_the_same_to_the_last_bit_whatever_stands_beside_its_text() {
    let tiny = Tiny::new("mean");
    for cpu in Cpu::all() {
        let bert = Bert::read(tiny.folder.path(), Pooling::Mean, cpu).unwrap();
        let mut room = Room::default();
        let together = bert.embed(&texts(), &mut room);
        let alone: Vec<Vec<f32>> =
            texts().into_iter().flat_map(|text| bert.embed(&[text], &mut room)).collect();
        assert_eq!(together, alone, "{cpu:?}");
    }
}

#[test]
fn no_texts_have_no_vectors() {
    let tiny = Tiny::new("mean");
    let bert = Bert::read(tiny.folder.path(), Pooling::Mean, Cpu::best()).unwrap();
    assert_eq!(bert.embed(&[], &mut Room::default()), [[0.0; 0]; 0]);
}

#[test]
fn names_may_say_that_the_network_was_part_of_a_larger_one() {
    let mut tiny = Tiny::new("mean");
    let ids = [2, 4, 3];
    let whole = Bert::read(tiny.folder.path(), Pooling::Mean, Cpu::best()).unwrap();
    tiny.tensors = tiny.tensors.into_iter().map(|(name, tensor)| (format!("bert.{name}"), tensor)).collect();
    tiny.save();
    let part = Bert::read(tiny.folder.path(), Pooling::Mean, Cpu::best()).unwrap();
    let vector = |bert: &Bert| bert.embed(&[ids.to_vec()], &mut Room::default());
    assert_eq!(vector(&part), vector(&whole));
}
