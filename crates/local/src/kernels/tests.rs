//! Tests of the arithmetic: every fast path gives what the plain one gives, and that is what it should be.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;

use super::*;

const THREADS: usize = 3;

fn numbers(random: &mut Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.f32() * 4.0 - 2.0).collect()
}

fn matrix(rows: &[Vec<f32>]) -> Matrix {
    let mut matrix = Matrix::new(rows[0].len());
    rows.iter().for_each(|row| matrix.push(row));
    matrix
}

fn exact(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn every_processor_multiplies_alike_and_close_to_exactly() {
    let mut random = Rng::with_seed(1);
    let mut pool = KernelPool::new(THREADS).unwrap();
    // Counts of rows and tokens around the sizes of groups and tiles.
    for (rows, columns, tokens) in [(1, 32, 1), (16, 64, 3), (17, 96, 4), (48, 576, 13), (33, 64, 8)] {
        let weights: Vec<_> = (0..rows).map(|_| numbers(&mut random, columns)).collect();
        let inputs: Vec<_> = (0..tokens).map(|_| numbers(&mut random, columns)).collect();
        let matrix = matrix(&weights);
        let mut activations = Activations::default();
        activations.fill(Cpu::detect(), &mut pool, &inputs.concat(), columns);
        let mut results = Vec::new();
        for cpu in Cpu::all() {
            let mut out = vec![f32::NAN; tokens * matrix.width()];
            matrix.multiply(cpu, &mut pool, &activations, &mut out);
            for (input, out) in inputs.iter().zip(out.chunks(matrix.width())) {
                for (weights, out) in weights.iter().zip(out) {
                    let exact = exact(weights, input);
                    let bound = 0.05 * (columns as f32).sqrt();
                    assert!((out - exact).abs() < bound, "{}: {out}, not {exact}", cpu.name());
                }
            }
            results.push(out);
        }
        for other in &results[1..] {
            for (one, other) in results[0].iter().zip(other) {
                assert!((one - other).abs() <= 1e-4 * (1.0 + one.abs()), "{one} and {other}");
            }
        }
    }
}

#[test]
fn fine_activations_leave_out_much_less() {
    let mut random = Rng::with_seed(6);
    let mut pool = KernelPool::new(THREADS).unwrap();
    // Weights that eight bits hold exactly, so that all error is that of the activations.
    let weights: Vec<f32> =
        (0..64_i8).map(|index| f32::from(index % 7 * 18) * if index == 3 { 1.0 } else { -1.0 }).collect();
    let weights: Vec<f32> =
        weights.iter().enumerate().map(|(at, w)| if at % 32 == 0 { 127.0 } else { *w }).collect();
    let matrix = matrix(&vec![weights.clone(); 16]);
    for count in [1, 5, 9] {
        let mut inputs: Vec<Vec<f32>> = (0..count).map(|_| numbers(&mut random, 64)).collect();
        inputs.iter_mut().for_each(|row| row[7] = 50.0);
        for cpu in Cpu::all() {
            let mut activations = Activations::default();
            let mut worst = [0.0_f32; 2];
            activations.fill(cpu, &mut pool, &inputs.concat(), 64);
            let mut out = vec![0.0; count * 16];
            matrix.multiply(cpu, &mut pool, &activations, &mut out);
            activations.fill_fine(cpu, &mut pool, &inputs.concat(), 64);
            let mut fine = vec![0.0; 2 * count * 16];
            matrix.multiply(cpu, &mut pool, &activations, &mut fine);
            for (index, input) in inputs.iter().enumerate() {
                let exact = exact(&weights, input);
                worst[0] = worst[0].max((out[index * 16] - exact).abs());
                worst[1] = worst[1].max((fine[index * 32] + fine[index * 32 + 16] - exact).abs());
            }
            assert!(worst[1] < 1.0 && worst[1] * 20.0 < worst[0], "{}: {worst:?}", cpu.name());
        }
    }
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut pool = KernelPool::new(1).unwrap();
    for (weight, input) in [(1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)] {
        let matrix = matrix(&vec![vec![weight; 64]; 16]);
        let mut activations = Activations::default();
        activations.fill(Cpu::detect(), &mut pool, &[input; 64], 64);
        for cpu in Cpu::all() {
            let mut out = [0.0; 16];
            matrix.multiply(cpu, &mut pool, &activations, &mut out);
            assert!(
                out.iter().all(|out| (out - 64.0 * weight * input).abs() < 1e-3),
                "{}: {out:?}",
                cpu.name()
            );
        }
    }
}

#[test]
fn numbers_that_are_none_and_results_without_room_do_no_harm() {
    let mut pool = KernelPool::new(2).unwrap();
    let matrix = matrix(&[vec![f32::NAN; 32], vec![f32::INFINITY; 32], vec![0.0; 32]]);
    let mut activations = Activations::default();
    activations.fill(Cpu::detect(), &mut pool, &[f32::NAN; 64], 32);
    for cpu in Cpu::all() {
        matrix.multiply(cpu, &mut pool, &activations, &mut [0.0; 16]);
        matrix.multiply(cpu, &mut pool, &activations, &mut []);
    }
    activations.fill(Cpu::detect(), &mut pool, &[1.0; 8], 8);
    for cpu in Cpu::all() {
        let mut out = [1.0; 16];
        matrix.multiply(cpu, &mut pool, &activations, &mut out);
        assert_eq!(out, [0.0; 16], "activations that are too short count as none");
    }
}

#[test]
fn a_row_can_be_read_back() {
    let mut random = Rng::with_seed(2);
    let rows: Vec<_> = (0..20).map(|_| numbers(&mut random, 64)).collect();
    let matrix = matrix(&rows);
    assert_eq!((matrix.rows(), matrix.columns(), matrix.width()), (20, 64, 32));
    let mut out = vec![0.0; 64];
    matrix.row(17, &mut out);
    assert!(out.iter().zip(&rows[17]).all(|(a, b)| (a - b).abs() < 0.01));
    matrix.row(99, &mut out);
}

#[test]
fn plain_numbers_are_computed_alike_everywhere() {
    let mut random = Rng::with_seed(3);
    let row = numbers(&mut random, 100);
    let weights = numbers(&mut random, 100);
    let mean = row.iter().map(|value| value * value).sum::<f32>() / 100.0;
    for cpu in Cpu::all() {
        let mut out = vec![0.0; 100];
        normalise(cpu, &row, &weights, 1e-5, &mut out);
        for ((out, value), weight) in out.iter().zip(&row).zip(&weights) {
            assert!((out - value / (mean + 1e-5).sqrt() * weight).abs() < 1e-5);
        }
        let mut out = vec![0.0; 50];
        let extreme: Vec<f32> = row.iter().map(|value| value * 60.0).collect();
        swiglu(cpu, &extreme, &mut out);
        for ((out, gate), value) in out.iter().zip(&extreme).zip(&extreme[50..]) {
            let exact = f64::from(*gate) / (1.0 + (-f64::from(*gate)).exp()) * f64::from(*value);
            assert!((f64::from(*out) - exact).abs() < 1e-5 * (1.0 + exact.abs()), "{out}, not {exact}");
        }
    }
}

#[test]
fn attention_is_a_mean_weighted_by_likeness() {
    let mut random = Rng::with_seed(4);
    // Around the stride, where sums are scaled, and for heads of every kind of size.
    for (positions, size) in [(1, 64), (2, 32), (63, 64), (64, 16), (65, 64), (65, 48), (100, 128), (200, 32)]
    {
        let query = numbers(&mut random, size);
        let keys = numbers(&mut random, size * positions);
        let values = numbers(&mut random, size * positions);
        let scores: Vec<f64> =
            keys.chunks(size).map(|key| f64::from(exact(&query, key) / (size as f32).sqrt()).exp()).collect();
        let total: f64 = scores.iter().sum();
        for cpu in Cpu::all() {
            let mut out = vec![f32::NAN; size];
            attend(cpu, &Attention { query: &query, keys: &keys, values: &values }, &mut out);
            for (index, out) in out.iter().enumerate() {
                let column = values.iter().skip(index).step_by(size);
                let exact: f64 = column.zip(&scores).map(|(value, score)| f64::from(*value) * score).sum();
                assert!((f64::from(*out) - exact / total).abs() < 1e-4, "{}", cpu.name());
            }
        }
    }
}

#[test]
fn a_pair_is_turned_by_its_angle() {
    let angles = [(1.0, 0.0), (0.0, 1.0)];
    let mut neighbours = [1.0, 2.0, 3.0, 4.0];
    rotate(&mut neighbours, &angles, 1);
    assert_eq!(neighbours, [-2.0, 1.0, 3.0, 4.0]);
    let mut halves = [1.0, 2.0, 3.0, 4.0];
    rotate(&mut halves, &angles, 2);
    assert_eq!(halves, [-3.0, 2.0, 1.0, 4.0]);
}

#[test]
fn every_piece_is_done_once_however_many_there_are() {
    let mut pool = KernelPool::new(THREADS).unwrap();
    for round in 0..2_000 {
        let pieces = round % 40;
        let counts: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
        pool.run(pieces, &|piece| {
            counts[piece].fetch_add(1, Ordering::Relaxed);
        });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
    let mut items = [0_usize; 10];
    pool.run_each(&mut items, 4, |piece, chunk| chunk.fill(piece * 10 + chunk.len()));
    assert_eq!(items, [4, 4, 4, 4, 14, 14, 14, 14, 22, 22]);
}

#[test]
fn gelu_is_the_exact_one_not_the_one_by_tangent() {
    // Values of x times the normal distribution below it.
    let known =
        [(-4.0, -1.266_97e-4), (-1.0, -0.158_655_25), (-0.5, -0.154_268_77), (0.0, 0.0), (0.5, 0.345_731_23)];
    let known = known.into_iter().chain([(1.0, 0.841_344_8), (2.0, 1.954_499_7), (12.0, 12.0), (-12.0, 0.0)]);
    let (mut values, expected): (Vec<f32>, Vec<f32>) = known.unzip();
    let before = values.clone();
    for cpu in Cpu::all() {
        values.copy_from_slice(&before);
        gelu(cpu, &mut values);
        for (value, expected) in values.iter().zip(&expected) {
            assert!((value - expected).abs() < 5e-6, "{}: {value}, not {expected}", cpu.name());
        }
    }
}

#[test]
fn a_row_is_centred_whatever_its_length() {
    let mut random = Rng::with_seed(5);
    for cpu in Cpu::all() {
        for length in [1, 15, 16, 17, 100] {
            let mut row = numbers(&mut random, length);
            let (factors, summands) = (numbers(&mut random, length), numbers(&mut random, length));
            let mean = row.iter().sum::<f32>() / length as f32;
            let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / length as f32;
            let expected: Vec<f32> = (0..length)
                .map(|at| (row[at] - mean) / (variance + 1e-5).sqrt() * factors[at] + summands[at])
                .collect();
            centre(cpu, &mut row, (&factors, &summands), 1e-5);
            for (value, expected) in row.iter().zip(expected) {
                assert!((value - expected).abs() < 1e-4, "{}: {value}, not {expected}", cpu.name());
            }
        }
        let mut equal = [3.0; 20];
        centre(cpu, &mut equal, (&[2.0; 20], &[0.25; 20]), 1e-12);
        assert_eq!(equal, [0.25; 20]);
    }
}

#[test]
fn a_panic_in_a_piece_is_handed_to_the_caller_and_the_pool_lives_on() {
    let mut pool = KernelPool::new(THREADS).unwrap();
    for bad in 0..8 {
        let done = catch_unwind(AssertUnwindSafe(|| pool.run(8, &|piece| assert_ne!(piece, bad))));
        assert!(done.is_err());
    }
    let count = AtomicUsize::new(0);
    pool.run(8, &|_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(count.load(Ordering::Relaxed), 8);
}
