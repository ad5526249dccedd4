//! The whole network against the plain one, on every kind of machine.

use super::super::bert::{Bert, Machine, Room};
use super::super::load::Pooling;
use super::tiny::{HIDDEN, POSITIONS, Tiny, WORDS};
use crate::kernels::{Cpu, KernelPool};

/// Weights and what they are multiplied with are whole numbers of eight bits, so a vector points nearly where it would
/// with all bits: this is the least cosine between the two.
const ALIKE: f64 = 0.9995;

/// Texts of the shortest and the longest lengths, and of some around the size of a tile.
fn texts() -> Vec<Vec<u32>> {
    let mut random = fastrand::Rng::with_seed(3);
    let lengths = [2, 1, 7, 8, 9, 31, 32, 33, POSITIONS];
    lengths.map(|length| (0..length).map(|_| random.u32(..WORDS.len() as u32)).collect()).into()
}

fn machine(cpu: Cpu) -> Machine {
    Machine { cpu, pool: KernelPool::new(3).unwrap() }
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
            let bert = Bert::read(tiny.folder.path(), pooling).unwrap();
            let texts = texts();
            let vectors = bert.embed(&mut machine(cpu), &texts, &mut Room::default());
            assert_eq!(vectors.len(), texts.len());
            for (text, vector) in texts.iter().zip(vectors) {
                let expected = expected(&tiny, text, pooling);
                let cosine: f64 = vector.iter().zip(&expected).map(|(a, b)| f64::from(*a) * b).sum();
                assert!(
                    vector.len() == HIDDEN && cosine > ALIKE,
                    "{pooling:?} {} {}: {cosine}",
                    cpu.name(),
                    text.len()
                );
                let length: f64 = vector.iter().map(|value| f64::from(*value).powi(2)).sum();
                assert!((length - 1.0).abs() < 1e-5, "{length}");
            }
        }
    }
}

#[test]
fn a_vector_is_the_same_to_the_last_bit_whatever_stands_beside_its_text() {
    let tiny = Tiny::new("mean");
    for cpu in Cpu::all() {
        let bert = Bert::read(tiny.folder.path(), Pooling::Mean).unwrap();
        let mut room = Room::default();
        let together = bert.embed(&mut machine(cpu), &texts(), &mut room);
        let alone: Vec<Vec<f32>> =
            texts().into_iter().flat_map(|text| bert.embed(&mut machine(cpu), &[text], &mut room)).collect();
        assert_eq!(together, alone, "{}", cpu.name());
    }
}

#[test]
fn no_texts_have_no_vectors() {
    let tiny = Tiny::new("mean");
    let bert = Bert::read(tiny.folder.path(), Pooling::Mean).unwrap();
    assert_eq!(bert.embed(&mut machine(Cpu::detect()), &[], &mut Room::default()), [[0.0; 0]; 0]);
}

#[test]
fn names_may_say_that_the_network_was_part_of_a_larger_one() {
    let mut tiny = Tiny::new("mean");
    let ids = [2, 4, 3];
    let whole = Bert::read(tiny.folder.path(), Pooling::Mean).unwrap();
    tiny.tensors = tiny.tensors.into_iter().map(|(name, tensor)| (format!("bert.{name}"), tensor)).collect();
    tiny.save();
    let part = Bert::read(tiny.folder.path(), Pooling::Mean).unwrap();
    let vector = |bert: &Bert| bert.embed(&mut machine(Cpu::detect()), &[ids.to_vec()], &mut Room::default());
    assert_eq!(vector(&part), vector(&whole));
}
