//! The tokens that an image takes, by the rules that providers publish.
//!
//! - OpenAI, tiles: <https://platform.openai.com/docs/guides/images-vision#calculating-costs>. The image is scaled to fit
//!   into 2048 x 2048 pixels, and then to 768 pixels on its shorter side. Each tile of 512 x 512 has a price, and so has
//!   the image. Small models count patches of 32 x 32 instead, at most 1536, times a factor.
//! - Anthropic, area: <https://docs.anthropic.com/en/docs/build-with-claude/vision>. The image is scaled to 1568 pixels on
//!   its longer side, and takes its pixels divided by 750.
//! - Others publish different rules, or none. An image of theirs counts as [`FLAT`], which is more than most take.

use crate::ProviderWire;

/// Tokens of an image whose provider's rule is not known.
const FLAT: usize = 1_536;

const TILE_FIT: f64 = 2048.0;
const TILE_SHORTER_SIDE: f64 = 768.0;
const TILE: f64 = 512.0;

const PATCH: u32 = 32;
const MAX_PATCHES: usize = 1_536;

const AREA_LONGER_SIDE: f64 = 1568.0;
const PIXELS_PER_TOKEN: f64 = 750.0;

/// How the tokens of an image are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageRule {
    /// Tokens of the image itself, and of each tile.
    Tiles {
        image: usize,
        tile: usize,
    },
    /// Hundredths of a token for each patch.
    Patches {
        hundredths: usize,
    },
    Area,
    Flat,
}

/// OpenAI's models by the beginnings of their names; the first that fits counts.
const OPENAI: &[(&str, ImageRule)] = &[
    ("gpt-5-mini", ImageRule::Patches { hundredths: 162 }),
    ("gpt-5-nano", ImageRule::Patches { hundredths: 246 }),
    ("gpt-4.1-mini", ImageRule::Patches { hundredths: 162 }),
    ("gpt-4.1-nano", ImageRule::Patches { hundredths: 246 }),
    ("o4-mini", ImageRule::Patches { hundredths: 172 }),
    ("gpt-4o-mini", ImageRule::Tiles { image: 2833, tile: 5667 }),
    ("gpt-5", ImageRule::Tiles { image: 70, tile: 140 }),
    ("gpt-4", ImageRule::Tiles { image: 85, tile: 170 }),
    ("chatgpt", ImageRule::Tiles { image: 85, tile: 170 }),
    ("o1", ImageRule::Tiles { image: 75, tile: 150 }),
    ("o3", ImageRule::Tiles { image: 75, tile: 150 }),
];

impl ImageRule {
    /// The rule of a model by the API of its provider and its name there.
    pub(super) fn of_model(wire: Option<ProviderWire>, id: &str) -> Self {
        if matches!(wire, Some(ProviderWire::Anthropic(_))) {
            return ImageRule::Area;
        }
        let id = id.rsplit_once('/').map_or(id, |(_, id)| id);
        let id = id.strip_prefix("ft:").unwrap_or(id);
        let known = OPENAI.iter().find(|(beginning, _)| id.starts_with(beginning));
        known.map_or(ImageRule::Flat, |(_, rule)| *rule)
    }

    pub(super) fn tokens(self, width: u32, height: u32) -> usize {
        match self {
            ImageRule::Tiles { image, tile } => image + tile * tiles(width, height),
            ImageRule::Patches { hundredths } => {
                let patches = width.div_ceil(PATCH) as usize * height.div_ceil(PATCH) as usize;
                (patches.min(MAX_PATCHES) * hundredths).div_ceil(100)
            }
            ImageRule::Area => {
                let (width, height) = (f64::from(width), f64::from(height));
                let scale = (AREA_LONGER_SIDE / width.max(height)).min(1.0);
                (width * scale * height * scale / PIXELS_PER_TOKEN).ceil() as usize
            }
            ImageRule::Flat => FLAT,
        }
    }
}

fn tiles(width: u32, height: u32) -> usize {
    let (width, height) = (f64::from(width), f64::from(height));
    let fit = (TILE_FIT / width.max(height)).min(1.0);
    let (width, height) = (width * fit, height * fit);
    let shorter = (TILE_SHORTER_SIDE / width.min(height)).min(1.0);
    let across = |side: f64| (side * shorter / TILE).ceil().max(1.0) as usize;
    across(width) * across(height)
}

#[cfg(test)]
mod tests {
    use crate::AnthropicVersion;

    use super::*;

    #[test]
    fn examples_of_the_providers_have_the_tokens_that_they_say() {
        let openai = |id: &str| ImageRule::of_model(Some(ProviderWire::Chat), id);
        // 1024 x 1024 becomes 768 x 768, four tiles; 2048 x 4096 becomes 768 x 1536, six tiles.
        assert_eq!(openai("gpt-4o").tokens(1024, 1024), 765);
        assert_eq!(openai("gpt-4.1").tokens(2048, 4096), 1105);
        assert_eq!(openai("gpt-4o").tokens(1, 1), 255);
        assert_eq!(openai("gpt-5").tokens(1024, 1024), 630);
        assert_eq!(openai("openai/gpt-4.1-mini").tokens(1024, 1024), 1659);
        assert_eq!(openai("gpt-4o-mini").tokens(512, 512), 8500);
        let anthropic = ImageRule::of_model(Some(ProviderWire::Anthropic(AnthropicVersion::V2023)), "claude");
        assert_eq!(anthropic.tokens(1092, 1092), 1590);
        assert_eq!(anthropic.tokens(200, 200), 54);
        assert_eq!(anthropic.tokens(2048, 2048), anthropic.tokens(1568, 1568), "scaled by the provider");
        assert_eq!(openai("gemini-2.5-flash").tokens(10, 10), FLAT);
        assert_eq!(ImageRule::of_model(Some(ProviderWire::Ollama), "llava").tokens(2000, 9), FLAT);
    }
}
