//! The vector of an embedding as it is kept: a scale, and a byte for each number.
//!
//! PostgreSQL keeps the numbers themselves, in a column of the type `vector`. A scale has few enough digits that its
//! products are exact, so both databases give the same vector back.

/// The largest level of a number.
const LEVELS: f32 = 127.0;

/// The bytes of the scale.
const SCALE_BYTES: usize = 4;

/// The last digits of a 32-bit number, which no scale has: 16 digits are left, and a product with a level has 23.
const DROPPED_BITS: u32 = 0xff;

/// Numbers, each as a multiple of a scale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedVector(Vec<u8>);

impl PackedVector {
    /// Packs numbers. A value that is not a number counts as 0.
    pub fn pack(numbers: &[f32]) -> Self {
        let largest = numbers.iter().fold(0.0f32, |largest, number| largest.max(number.abs()));
        let is_usable = largest.is_finite() && largest > 0.0;
        let scale = if is_usable { rounded_up(largest / LEVELS) } else { 1.0 };
        Self::of_scale(scale, numbers)
    }

    fn of_scale(scale: f32, numbers: &[f32]) -> Self {
        let level = |number: &f32| ((number / scale).round().clamp(-LEVELS, LEVELS) as i8).cast_unsigned();
        Self(scale.to_le_bytes().into_iter().chain(numbers.iter().map(level)).collect())
    }

    /// Bytes that a database has kept. None if they are no vector.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= SCALE_BYTES).then(|| Self(bytes.to_vec()))
    }

    /// The bytes as a database keeps them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.0.len().saturating_sub(SCALE_BYTES)
    }

    /// The numbers.
    pub fn numbers(&self) -> Vec<f32> {
        self.multiples().map_or_else(Vec::new, |(scale, levels)| products(scale, levels).collect())
    }

    fn multiples(&self) -> Option<(f32, &[u8])> {
        let (scale, levels) = self.0.split_first_chunk::<SCALE_BYTES>()?;
        Some((f32::from_le_bytes(*scale), levels))
    }

    /// The numbers as PostgreSQL sends and takes them: how many, two bytes without meaning, and the numbers.
    pub(crate) fn write_to(&self, out: &mut impl Extend<u8>) {
        let Some((scale, levels)) = self.multiples() else { return };
        out.extend(u16::try_from(levels.len()).unwrap_or(u16::MAX).to_be_bytes());
        out.extend([0, 0]);
        // Vectors of earlier versions have scales with all digits.
        let numbers = products(nearest_short(scale), levels);
        numbers.for_each(|number| out.extend(number.to_be_bytes()));
    }

    /// The vector that PostgreSQL has sent.
    pub(crate) fn of_sent(sent: &[u8]) -> Option<Self> {
        let (numbers, rest) = sent.get(SCALE_BYTES..)?.as_chunks::<4>();
        if !rest.is_empty() {
            return None;
        }
        let numbers: Vec<f32> = numbers.iter().map(|number| f32::from_be_bytes(*number)).collect();
        Some(Self::pack(&numbers))
    }

    /// Returns this vector as it comes back from PostgreSQL.
    pub(crate) fn postgres_copy(&self) -> Self {
        let Some((scale, levels)) = self.multiples() else { return self.clone() };
        let mut bytes = nearest_short(scale).to_le_bytes().to_vec();
        bytes.extend_from_slice(levels);
        Self(bytes)
    }
}

fn products(scale: f32, levels: &[u8]) -> impl Iterator<Item = f32> {
    levels.iter().map(move |level| f32::from(level.cast_signed()) * scale)
}

/// The next scale that is short enough, so that no number is larger than the largest level.
fn rounded_up(scale: f32) -> f32 {
    f32::from_bits((scale.to_bits() + DROPPED_BITS) & !DROPPED_BITS)
}

fn nearest_short(scale: f32) -> f32 {
    f32::from_bits((scale.to_bits() + DROPPED_BITS / 2) & !DROPPED_BITS)
}

#[cfg(test)]
mod tests {
    use super::PackedVector;

    fn waves(step: f32) -> Vec<f32> {
        (0..384u16).map(|n| (f32::from(n) * step).sin() / 20.0).collect()
    }

    #[test]
    fn a_vector_keeps_its_direction() {
        assert_eq!(PackedVector::pack(&[]).numbers(), [0.0; 0]);
        let numbers = waves(0.7);
        let kept = PackedVector::pack(&numbers).numbers();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let cosine = dot(&numbers, &kept) / (dot(&numbers, &numbers) * dot(&kept, &kept)).sqrt();
        assert!(cosine > 0.9999, "{cosine}");
        assert_eq!(PackedVector::of_bytes(&[1, 2]), None);
        assert_eq!(PackedVector::pack(&[0.0, f32::NAN]).numbers(), [0.0, 0.0]);
    }

    #[test]
    fn a_vector_comes_back_from_postgresql_as_it_was() {
        for step in 1..2_000u16 {
            let packed = PackedVector::pack(&waves(f32::from(step) / 100.0));
            let mut sent = Vec::new();
            packed.write_to(&mut sent);
            assert_eq!(sent.len(), 4 + 384 * 4);
            assert_eq!(PackedVector::of_sent(&sent), Some(packed.clone()), "{step}");
            assert_eq!(packed.postgres_copy(), packed);
        }
        for odd in [&[f32::INFINITY, 1.0][..], &[f32::NAN, 0.0], &[f32::MIN_POSITIVE], &[1e38, -1.0]] {
            let packed = PackedVector::pack(odd);
            let mut sent = Vec::new();
            packed.write_to(&mut sent);
            assert_eq!(PackedVector::of_sent(&sent), Some(packed), "{odd:?}");
        }
    }

    #[test]
    fn a_scale_of_an_earlier_version_is_shortened_on_its_way() {
        for step in 1..2_000u16 {
            let numbers = waves(f32::from(step) / 100.0);
            let largest = numbers.iter().fold(0.0f32, |largest, number| largest.max(number.abs()));
            let packed = PackedVector::of_scale(largest / 127.0, &numbers);
            let mut sent = Vec::new();
            packed.write_to(&mut sent);
            assert_eq!(PackedVector::of_sent(&sent), Some(packed.postgres_copy()), "{step}");
        }
    }
}
