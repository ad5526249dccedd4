//! Vectors of items, and how near they are to a question's.
//!
//! A number of a vector takes one byte, and a vector has a factor. Beside it stand the signs of its numbers, a bit each:
//! they give an estimate of how near it is at an eighth of the reading, which is what a large index spends its time on.
//! There, only the nearest by that estimate are compared in full.

use std::f32::consts::FRAC_PI_2;
use std::sync::{Mutex, PoisonError};
use std::thread;

use multiversion::multiversion;

use super::{Refused, Slot, index};

/// Numbers of a vector. No model in use has more.
const MAX_DIMENSIONS: usize = 8192;
/// Places up to which every vector is compared in full: that takes half a millisecond.
const MAX_COMPARED: usize = 16_384;
/// Of more vectors, how many are compared in full at least. Measured on sentences, the nearest 2 of 100 by estimate
/// hold 99.4 of 100 of the ten nearest, and the rest is estimated to 0.06.
const COMPARED_OF_MANY: usize = 2_048;
const BITS: usize = u64::BITS as usize;

#[derive(Debug, Default)]
pub(super) struct Vectors {
    dimensions: usize,
    /// How many items have one.
    count: usize,
    /// By slot, the numbers. Zeros stand for no vector.
    numbers: Vec<i8>,
    /// By slot, what to multiply the numbers with to get a vector of length one. Zero stands for no vector.
    factors: Vec<f32>,
    /// By slot, the numbers' signs.
    signs: Vec<u64>,
}

impl Vectors {
    pub(super) fn set(&mut self, slot: Slot, vector: &[f32]) -> Result<(), Refused> {
        if self.count == 0 {
            *self = Self { dimensions: vector.len(), ..Self::default() };
        }
        if vector.len() != self.dimensions {
            return Err(Refused::Length { given: vector.len(), expected: self.dimensions });
        }
        let (numbers, factor) = compact(vector).ok_or(Refused::Vector)?;
        self.grow(slot);
        self.count += usize::from(!self.has_vector(slot));
        if let Some(row) = self.numbers.chunks_exact_mut(self.dimensions).nth(index(slot)) {
            row.copy_from_slice(&numbers);
        }
        let signs = signs(vector);
        if let Some(row) = self.signs.chunks_exact_mut(signs.len()).nth(index(slot)) {
            row.copy_from_slice(&signs);
        }
        if let Some(place) = self.factors.get_mut(index(slot)) {
            *place = factor;
        }
        Ok(())
    }

    pub(super) fn clear(&mut self, slot: Slot) {
        if !self.has_vector(slot) {
            return;
        }
        self.count -= 1;
        if self.count == 0 {
            *self = Self::default();
            return;
        }
        if let Some(row) = self.numbers.chunks_exact_mut(self.dimensions).nth(index(slot)) {
            row.fill(0);
        }
        let width = self.dimensions.div_ceil(BITS);
        if let Some(row) = self.signs.chunks_exact_mut(width).nth(index(slot)) {
            row.fill(0);
        }
        if let Some(place) = self.factors.get_mut(index(slot)) {
            *place = 0.0;
        }
    }

    pub(super) fn has_vector(&self, slot: Slot) -> bool {
        self.factors.get(index(slot)).is_some_and(|factor| *factor != 0.0)
    }

    /// How near one is to the vector; none if it cannot be said.
    pub(super) fn cosine(&self, slot: Slot, vector: &[f32]) -> Option<f32> {
        let own = self.factors.get(index(slot)).filter(|factor| **factor != 0.0)?;
        let row = self.numbers.chunks_exact(self.dimensions).nth(index(slot))?;
        if vector.len() != self.dimensions {
            return None;
        }
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        let dot: f32 = row.iter().zip(vector).map(|(own, other)| f32::from(*own) * other).sum();
        (length > 0.0).then(|| dot * own / length)
    }

    /// How near each of the first `slots` slots is to the vector, from `least` to 1. A slot that has no vector yet is
    /// taken to be as near as the others are on average. None if the vector can be compared with none.
    pub(super) fn nearness(&self, vector: &[f32], slots: usize, least: f32) -> Option<Vec<f32>> {
        if self.count == 0 || vector.len() != self.dimensions {
            return None;
        }
        let (numbers, factor) = compact(vector)?;
        let numbers: Vec<i16> = numbers.into_iter().map(i16::from).collect();
        let mut near = vec![0.0; self.factors.len()];
        if near.len() <= MAX_COMPARED {
            compare(&self.numbers, &numbers, &mut near);
            for (near, own) in near.iter_mut().zip(&self.factors) {
                *near = (*near * own * factor).clamp(least, 1.0);
            }
        } else {
            let different = self.estimate(vector, &mut near);
            self.compare_nearest((&numbers, factor), &different, &mut near);
            near.iter_mut().for_each(|near| *near = near.max(least));
        }
        let total: f32 =
            near.iter().zip(&self.factors).map(|(near, own)| if *own == 0.0 { 0.0 } else { *near }).sum();
        let average = total / self.count as f32;
        for (near, own) in near.iter_mut().zip(&self.factors) {
            if *own == 0.0 {
                *near = average;
            }
        }
        near.resize(slots, average);
        Some(near)
    }

    pub(super) fn bytes(&self) -> usize {
        self.numbers.capacity()
            + self.factors.capacity() * size_of::<f32>()
            + self.signs.capacity() * size_of::<u64>()
    }

    fn grow(&mut self, slot: Slot) {
        let slots = index(slot) + 1;
        if self.factors.len() < slots {
            self.factors.resize(slots, 0.0);
            self.numbers.resize(slots * self.dimensions, 0);
            self.signs.resize(slots * self.dimensions.div_ceil(BITS), 0);
        }
    }

    /// By the share of numbers that have the same sign. Returns how many differ in it.
    fn estimate(&self, vector: &[f32], near: &mut [f32]) -> Vec<u16> {
        let nearness = |different: usize| {
            let alike = 1.0 - 2.0 * different as f32 / self.dimensions as f32;
            (FRAC_PI_2 * alike).sin().clamp(-1.0, 1.0)
        };
        let table: Vec<f32> = (0..=self.dimensions).map(nearness).collect();
        let (signs, width) = (signs(vector), self.dimensions.div_ceil(BITS));
        let mut different = vec![0; near.len()];
        let half = near.len() / 2;
        let estimate = |rows: &[u64], different: &mut [u16], near: &mut [f32]| {
            differences(rows, &signs, different);
            for (near, different) in near.iter_mut().zip(different) {
                *near = table.get(usize::from(*different)).copied().unwrap_or(0.0);
            }
        };
        let ((first, second), (one, other)) = (near.split_at_mut(half), different.split_at_mut(half));
        let (rows, more) = self.signs.split_at(self.signs.len().min(half * width));
        in_halves(|| estimate(rows, one, first), || estimate(more, other, second));
        different
    }

    /// Puts the true nearness in place of the best estimates.
    fn compare_nearest(&self, (numbers, factor): (&[i16], f32), different: &[u16], near: &mut [f32]) {
        let most = most_of_least(different, self.dimensions);
        let compare_part = |from: usize, different: &[u16], near: &mut [f32]| {
            // Chosen first, so that the processor fetches several rows at a time.
            let chosen = different.iter().enumerate().filter(|(_, different)| **different <= most);
            let chosen: Vec<usize> = chosen.map(|(slot, _)| slot).collect();
            for slot in chosen {
                let row = from + slot;
                let numbers_of = self.numbers.get(row * self.dimensions..(row + 1) * self.dimensions);
                let own = self.factors.get(row).copied().unwrap_or(0.0);
                if let (Some(row), Some(near)) = (numbers_of, near.get_mut(slot)) {
                    let mut dot = [0.0];
                    compare(row, numbers, &mut dot);
                    *near = (dot.iter().sum::<f32>() * own * factor).clamp(-1.0, 1.0);
                }
            }
        };
        let half = near.len() / 2;
        let ((first, second), (one, other)) = (near.split_at_mut(half), different.split_at(half));
        in_halves(|| compare_part(0, one, first), || compare_part(half, other, second));
    }
}

/// Two halves of a piece of work at once; one after the other if there is no thread to be had.
fn in_halves(first: impl FnOnce() + Send, second: impl FnOnce()) {
    let waiting = Mutex::new(Some(first));
    let do_first = || {
        let work = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.into_iter().for_each(|work| work());
    };
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, do_first);
        second();
        drop(started);
    });
    do_first();
}

/// The vector in bytes, and what to multiply them with. None without a direction.
fn compact(vector: &[f32]) -> Option<(Vec<i8>, f32)> {
    let largest = vector.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    let length = vector.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
    let is_usable = vector.len() <= MAX_DIMENSIONS && largest > 0.0 && length.is_finite();
    let factor = f64::from(largest) / (f64::from(i8::MAX) * length);
    let scale = f32::from(i8::MAX) / largest;
    let usable = is_usable && scale.is_finite() && factor.is_finite();
    usable.then(|| (vector.iter().map(|number| (number * scale).round() as i8).collect(), factor as f32))
}

fn signs(vector: &[f32]) -> Vec<u64> {
    let word = |numbers: &[f32]| {
        numbers.iter().enumerate().fold(0, |word, (bit, number)| word | (u64::from(*number > 0.0) << bit))
    };
    vector.chunks(BITS).map(word).collect()
}

/// The number that at least as many as are compared in full do not exceed.
fn most_of_least(different: &[u16], dimensions: usize) -> u16 {
    let mut counts = vec![0_usize; dimensions + 1];
    for different in different {
        if let Some(count) = counts.get_mut(usize::from(*different)) {
            *count += 1;
        }
    }
    let mut reached = 0;
    for (different, here) in (0..).zip(counts) {
        reached += here;
        if reached >= COMPARED_OF_MANY {
            return different;
        }
    }
    u16::MAX
}

/// The dot product of each row with the query.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512vnni", "x86_64+avx2+fma", "aarch64+neon"))]
fn compare(rows: &[i8], query: &[i16], out: &mut [f32]) {
    for (row, out) in rows.chunks_exact(query.len().max(1)).zip(out) {
        let dot: i32 = row.iter().zip(query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
        *out = dot as f32;
    }
}

/// How many bits of each row differ from the query's.
#[multiversion(targets("x86_64+popcnt", "aarch64+neon"))]
fn differences(rows: &[u64], query: &[u64], out: &mut [u16]) {
    for (row, out) in rows.chunks_exact(query.len().max(1)).zip(out) {
        let bits: u32 = row.iter().zip(query).map(|(a, b)| (a ^ b).count_ones()).sum();
        *out = bits as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vector that is the same for the same seed, and differs from others.
    fn vector(seed: usize, dimensions: usize) -> Vec<f32> {
        let mut state = seed as u64 + 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        next();
        (0..dimensions).map(|_| next()).collect()
    }

    fn cosine(a: &[f32], b: &[f32]) -> f32 {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    }

    #[test]
    fn nearness_is_the_cosine() {
        for dimensions in [1, 3, 64, 65, 384] {
            let mut vectors = Vectors::default();
            for slot in 0..50 {
                vectors.set(slot, &vector(slot as usize, dimensions)).unwrap();
            }
            let query = vector(1000, dimensions);
            let near = vectors.nearness(&query, 50, 0.0).unwrap();
            for (slot, near) in near.iter().enumerate() {
                let exact = cosine(&query, &vector(slot, dimensions)).max(0.0);
                assert!((near - exact).abs() < 0.01, "{dimensions} {slot} {near} {exact}");
            }
        }
    }

    #[test]
    fn the_nearest_of_many_are_compared_in_full() {
        const SLOTS: u32 = MAX_COMPARED as u32 + 100;
        let mut vectors = Vectors::default();
        let query = vector(0, 64);
        let near = |slot: u32| {
            let other = vector(slot as usize + 1, 64);
            let share = if slot.is_multiple_of(1000) { 0.2 } else { 2.0 };
            query.iter().zip(other).map(|(query, other)| query + share * other).collect::<Vec<f32>>()
        };
        for slot in 0..SLOTS {
            vectors.set(slot, &near(slot)).unwrap();
        }
        let found = vectors.nearness(&query, SLOTS as usize, 0.0).unwrap();
        let mut order: Vec<u32> = (0..SLOTS).collect();
        order.sort_by(|a, b| found[*b as usize].total_cmp(&found[*a as usize]));
        let mut nearest = order[..17].to_vec();
        nearest.sort_unstable();
        assert_eq!(nearest, (0..17).map(|slot| slot * 1000).collect::<Vec<_>>());
        for slot in nearest {
            assert!((found[slot as usize] - cosine(&query, &near(slot))).abs() < 0.01);
        }
    }

    #[test]
    fn what_has_no_vector_is_as_near_as_the_others_on_average() {
        let mut vectors = Vectors::default();
        vectors.set(0, &[1.0, 0.0]).unwrap();
        vectors.set(2, &[0.0, 1.0]).unwrap();
        assert_eq!(vectors.nearness(&[2.0, 0.0], 4, 0.0).unwrap(), [1.0, 0.5, 0.0, 0.5]);
        assert_eq!(vectors.nearness(&[0.0, -1.0], 3, 0.0).unwrap(), [0.0, 0.0, 0.0]);
        assert_eq!(vectors.nearness(&[0.0, -1.0], 3, -1.0).unwrap(), [0.0, -0.5, -1.0]);
        assert_eq!([0, 1, 2, 3].map(|slot| vectors.has_vector(slot)), [true, false, true, false]);
    }

    #[test]
    fn vectors_without_a_direction_are_refused() {
        let mut vectors = Vectors::default();
        let long = vec![1.0; MAX_DIMENSIONS + 1];
        for bad in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0], &[1e-45, 0.0], &long] {
            assert_eq!(vectors.set(0, bad), Err(Refused::Vector));
            assert!(vectors.nearness(bad, 1, 0.0).is_none());
        }
        vectors.set(0, &[1.0, 2.0]).unwrap();
        assert_eq!(vectors.set(1, &[1.0]), Err(Refused::Length { given: 1, expected: 2 }));
        assert_eq!(vectors.nearness(&[1.0], 1, 0.0), None);
        assert_eq!(vectors.nearness(&[f32::NAN, 1.0], 1, 0.0), None);
    }

    #[test]
    fn a_cleared_vector_is_gone() {
        let mut vectors = Vectors::default();
        vectors.set(0, &[1.0, 2.0]).unwrap();
        vectors.set(1, &[3.0, -4.0]).unwrap();
        vectors.clear(1);
        assert_eq!(vectors.numbers[2..], [0, 0]);
        assert_eq!((vectors.signs[1], vectors.factors[1], vectors.count), (0, 0.0, 1));
        vectors.clear(0);
        vectors.clear(0);
        assert_eq!(vectors.bytes(), 0);
        vectors.set(0, &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(vectors.dimensions, 3, "an index without vectors takes those of another model");
    }
}
