//! Pixels: read from the layout of a decoder, scaled by averages, and turned.

use image::ColorType;
use image::metadata::Orientation;

/// Channels of a pixel here: red, green, blue, alpha.
const CHANNELS: usize = 4;

/// How a decoder lays out a pixel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    is_coloured: bool,
    has_alpha: bool,
    /// Bytes of a channel.
    depth: usize,
}

impl Layout {
    /// None for a layout that no decoder here has.
    pub(crate) fn of(colour: ColorType) -> Option<Self> {
        let layout = |is_coloured, has_alpha, depth| Some(Self { is_coloured, has_alpha, depth });
        match colour {
            ColorType::L8 => layout(false, false, 1),
            ColorType::La8 => layout(false, true, 1),
            ColorType::Rgb8 => layout(true, false, 1),
            ColorType::Rgba8 => layout(true, true, 1),
            ColorType::L16 => layout(false, false, 2),
            ColorType::La16 => layout(false, true, 2),
            ColorType::Rgb16 => layout(true, false, 2),
            ColorType::Rgba16 => layout(true, true, 2),
            ColorType::Rgb32F | ColorType::Rgba32F | _ => None,
        }
    }

    /// Bytes of a pixel.
    fn stride(self) -> usize {
        self.depth * (if self.is_coloured { 3 } else { 1 } + usize::from(self.has_alpha))
    }

    /// The channels of a pixel. Of two bytes, which are in the order of this machine, the higher one counts.
    fn channels(self, pixel: &[u8]) -> [u8; CHANNELS] {
        let high = if cfg!(target_endian = "little") { self.depth - 1 } else { 0 };
        let at = |channel: usize| pixel.get(channel * self.depth + high).copied().unwrap_or(u8::MAX);
        let (red, green, blue, alpha) =
            if self.is_coloured { (at(0), at(1), at(2), 3) } else { (at(0), at(0), at(0), 1) };
        [red, green, blue, if self.has_alpha { at(alpha) } else { u8::MAX }]
    }
}

/// Pixels as a decoder gives them.
pub(crate) struct Decoded<'a> {
    pub(crate) layout: Layout,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) bytes: &'a [u8],
}

/// Pixels of red, green, blue and alpha, row by row.
pub(crate) struct Pixels {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) rgba: Vec<u8>,
}

impl Decoded<'_> {
    /// The pixels at a size that is not larger: each is the average of those that it stands for. None if there are no
    /// pixels, or fewer than there should be.
    pub(crate) fn scaled(&self, width: u32, height: u32) -> Option<Pixels> {
        let stride = self.layout.stride();
        let row_bytes = self.width as usize * stride;
        if self.width == 0 || self.height == 0 || self.bytes.len() < row_bytes * self.height as usize {
            return None;
        }
        // The part of a side for which one of `parts` stands.
        let span = |part: u32, parts: u32, side: u32| {
            let at = |part: u32| (u64::from(part) * u64::from(side) / u64::from(parts)) as usize;
            at(part)..at(part + 1).max(at(part) + 1)
        };
        let mut rgba = Vec::with_capacity(width as usize * height as usize * CHANNELS);
        for y in 0..height {
            let rows = span(y, height, self.height);
            for x in 0..width {
                let columns = span(x, width, self.width);
                let mut average = Average::default();
                for row in rows.clone() {
                    let start = row * row_bytes + columns.start * stride;
                    let pixels = self.bytes.get(start..row * row_bytes + columns.end * stride)?;
                    pixels.chunks_exact(stride).for_each(|pixel| average.add(self.layout.channels(pixel)));
                }
                rgba.extend(average.value());
            }
        }
        Some(Pixels { width, height, rgba })
    }
}

/// The average of some pixels. A transparent pixel does not colour it.
#[derive(Default)]
struct Average {
    colours: [u64; 3],
    alpha: u64,
    pixels: u64,
}

impl Average {
    fn add(&mut self, [red, green, blue, alpha]: [u8; CHANNELS]) {
        let alpha = u64::from(alpha);
        for (sum, colour) in self.colours.iter_mut().zip([red, green, blue]) {
            *sum += u64::from(colour) * alpha;
        }
        self.alpha += alpha;
        self.pixels += 1;
    }

    fn value(&self) -> [u8; CHANNELS] {
        let share =
            |sum: u64, parts: u64| (sum + parts / 2).checked_div(parts).map_or(0, |part| part.min(255) as u8);
        let [red, green, blue] = self.colours.map(|sum| share(sum, self.alpha));
        [red, green, blue, share(self.alpha, self.pixels)]
    }
}

impl Pixels {
    pub(crate) fn is_opaque(&self) -> bool {
        self.rgba.chunks_exact(CHANNELS).all(|pixel| pixel.last() == Some(&u8::MAX))
    }

    /// Red, green and blue alone.
    pub(crate) fn without_alpha(&self) -> Vec<u8> {
        self.rgba.chunks_exact(CHANNELS).flat_map(|pixel| pixel.iter().take(3)).copied().collect()
    }

    pub(crate) fn as_decoded(&self) -> Decoded<'_> {
        let layout = Layout { is_coloured: true, has_alpha: true, depth: 1 };
        Decoded { layout, width: self.width, height: self.height, bytes: &self.rgba }
    }

    /// Turned and mirrored as the camera says.
    pub(crate) fn turned(self, orientation: Orientation) -> Self {
        let (right, bottom) = (self.width.saturating_sub(1), self.height.saturating_sub(1));
        // The place that the pixel at `x` and `y` of the turned image comes from.
        let from: fn(u32, u32, u32, u32) -> (u32, u32) = match orientation {
            Orientation::NoTransforms => return self,
            Orientation::FlipHorizontal => |x, y, right, _| (right - x, y),
            Orientation::FlipVertical => |x, y, _, bottom| (x, bottom - y),
            Orientation::Rotate180 => |x, y, right, bottom| (right - x, bottom - y),
            Orientation::Rotate90 => |x, y, _, bottom| (y, bottom - x),
            Orientation::Rotate270 => |x, y, right, _| (right - y, x),
            Orientation::Rotate90FlipH => |x, y, _, _| (y, x),
            Orientation::Rotate270FlipH => |x, y, right, bottom| (right - y, bottom - x),
        };
        let swaps = matches!(
            orientation,
            Orientation::Rotate90
                | Orientation::Rotate270
                | Orientation::Rotate90FlipH
                | Orientation::Rotate270FlipH
        );
        let (width, height) = if swaps { (self.height, self.width) } else { (self.width, self.height) };
        let mut rgba = Vec::with_capacity(self.rgba.len());
        for y in 0..height {
            for x in 0..width {
                let (x, y) = from(x, y, right, bottom);
                let at = (y as usize * self.width as usize + x as usize) * CHANNELS;
                rgba.extend_from_slice(self.rgba.get(at..at + CHANNELS).unwrap_or(&[0; CHANNELS]));
            }
        }
        Self { width, height, rgba }
    }
}
