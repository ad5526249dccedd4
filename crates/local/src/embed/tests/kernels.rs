//! Every version of the inner loops gives what a plain sum gives.

use super::super::cpu::{COLUMNS, Cpu, ROWS};
use super::super::matrix::{Linear, Rows};
use super::tiny;

/// Single precision over sums of a few hundred numbers.
const NEAR: f64 = 2e-4;

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.f32() * 4.0 - 2.0).collect()
}

fn assert_near(found: f32, expected: f64, what: &str) {
    assert!((f64::from(found) - expected).abs() < NEAR, "{what}: {found}, not {expected}");
}

#[test]
fn a_tile_is_the_sum_of_products_on_every_kind_of_machine() {
    for depth in [0, 1, 7, 384] {
        let rows: Vec<[f32; ROWS]> = numbers(depth * ROWS, 1).as_chunks().0.to_vec();
        let panel: Vec<[f32; COLUMNS]> = numbers(depth * COLUMNS, 2).as_chunks().0.to_vec();
        for cpu in Cpu::all() {
            let tile = cpu.tile(&rows, &panel);
            for row in 0..ROWS {
                for column in 0..COLUMNS {
                    let products =
                        (0..depth).map(|at| f64::from(rows[at][row]) * f64::from(panel[at][column]));
                    assert_near(
                        tile[row][column],
                        products.sum(),
                        &format!("{cpu:?} {depth} {row} {column}"),
                    );
                }
            }
        }
    }
}

#[test]
fn a_layer_multiplies_and_adds_whatever_its_sizes() {
    for (count, inputs, outputs) in [(1, 1, 1), (7, 3, 31), (8, 32, 32), (9, 40, 33), (130, 5, 70)] {
        let (input, weight, bias) =
            (numbers(count * inputs, 1), numbers(outputs * inputs, 2), numbers(outputs, 3));
        let layer = Linear::new(&weight, &bias, inputs);
        for cpu in Cpu::all() {
            let (mut output, mut rows) = (vec![9.0; 10_000], Rows::default());
            layer.apply(cpu, &input, &mut output, &mut rows);
            assert_eq!(output.len(), count * outputs);
            for (at, found) in output.into_iter().enumerate() {
                let (row, column) = (at / outputs, at % outputs);
                let (left, right) = (&input[row * inputs..][..inputs], &weight[column * inputs..][..inputs]);
                let products = left.iter().zip(right).map(|(a, b)| f64::from(*a) * f64::from(*b));
                let expected = products.sum::<f64>() + f64::from(bias[column]);
                assert_near(found, expected, &format!("{cpu:?} {count}×{inputs}×{outputs}"));
            }
        }
    }
}

#[test]
fn gelu_is_the_exact_one_not_the_one_by_tangent() {
    for cpu in Cpu::all() {
        let mut values: Vec<f32> = (-1200..=1200_i16).map(|step| f32::from(step) / 100.0).collect();
        let before = values.clone();
        cpu.gelu(&mut values);
        for (value, before) in values.into_iter().zip(before) {
            let expected = tiny::gelu(f64::from(before));
            assert!((f64::from(value) - expected).abs() < 5e-6, "{cpu:?} {before}: {value}, not {expected}");
        }
    }
}

#[test]
fn shares_add_up_to_one_and_survive_huge_scores() {
    for cpu in Cpu::all() {
        for count in [1, 2, 15, 16, 17, 100] {
            let scores = numbers(count, 4);
            let mut shares = scores.clone();
            cpu.softmax(&mut shares, 0.5);
            let whole: f64 = scores.iter().map(|score| f64::from(score * 0.5).exp()).sum();
            for (share, score) in shares.iter().zip(&scores) {
                let expected = f64::from(score * 0.5).exp() / whole;
                assert!(
                    (f64::from(*share) - expected).abs() < 1e-6,
                    "{cpu:?} {count}: {share}, not {expected}"
                );
            }
        }
        let mut huge = [1e30, -1e30, 1e30, 0.0];
        cpu.softmax(&mut huge, 1.0);
        assert_eq!(huge.map(|share| (share * 1000.0).round()), [500.0, 0.0, 500.0, 0.0]);
    }
}

#[test]
fn a_row_of_equal_numbers_is_normalised_to_the_bias() {
    for cpu in Cpu::all() {
        let mut row = [3.0; 20];
        cpu.normalise(&mut row, &[2.0; 20], &[0.25; 20], 1e-12);
        assert_eq!(row, [0.25; 20]);
    }
}
