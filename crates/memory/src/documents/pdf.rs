//! PDF: the glyphs of each page with their places and sizes, put together to lines, paragraphs and headings.
//!
//! Text that is drawn invisibly is kept: it is what OCR lays under a scanned page.

mod inflate;
mod layout;

use hayro_interpret::font::{Glyph, GlyphRun, PositionedGlyph};
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use hayro_interpret::kurbo::{Affine, BezPath, Point};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
    InterpreterSettings, RectExt as _, SoftMask, TransformExt as _, interpret_page,
};

use self::layout::{GlyphMark, PdfLines};
use super::{DocumentProblem, ExtractedDocument, MAX_PAGES, MAX_TEXT_BYTES, text};

/// The height of a font in the units of its glyphs.
const UNITS_PER_EM: f64 = 1000.0;
/// How wide a glyph is taken to be that does not say so, in the same units.
const USUAL_ADVANCE: f64 = 500.0;
/// Titles that programs write when the author gave none.
const NO_TITLES: &[&str] = &["untitled", "(anonymous)", "(unspecified)"];

pub(super) fn extract(bytes: &[u8]) -> Result<ExtractedDocument, DocumentProblem> {
    inflate::check(bytes)?;
    let pdf = Pdf::new(bytes.to_vec()).map_err(read_problem)?;
    let count = u32::try_from(pdf.pages().len()).unwrap_or(u32::MAX);
    if count > MAX_PAGES {
        return Err(DocumentProblem::TooManyPages { pages: count, limit: MAX_PAGES });
    }
    let cache = InterpreterCache::new();
    let mut left = MAX_TEXT_BYTES;
    let mut pages = Vec::new();
    for page in pdf.pages().iter() {
        let transform = page.initial_transform(true).to_kurbo();
        let crop = page.intersected_crop_box().to_kurbo();
        let mut context = Context::new(transform, crop, &cache, pdf.xref(), InterpreterSettings::default());
        let mut reader = PdfReader { lines: PdfLines::default(), left };
        interpret_page(page, &mut context, &mut reader);
        if reader.left == 0 {
            return Err(DocumentProblem::TooLarge { what: "bytes of text", limit: MAX_TEXT_BYTES });
        }
        left = reader.left;
        pages.push(reader.lines.finish());
    }
    let title = pdf.metadata().title.as_ref().map(|title| text::decode(title, None));
    let title = title.filter(|title| !NO_TITLES.contains(&title.trim()));
    Ok(layout::outline(&pages)?.finish(title.as_deref(), Some(count)))
}

fn read_problem(error: LoadPdfError) -> DocumentProblem {
    match error {
        LoadPdfError::Decryption(
            DecryptionError::PasswordProtected
            | DecryptionError::UnsupportedAlgorithm
            | DecryptionError::MissingIDEntry
            | DecryptionError::InvalidEncryption,
        ) => DocumentProblem::Encrypted,
        LoadPdfError::Invalid => DocumentProblem::Unreadable { what: "it is damaged or cut off" },
    }
}

/// Draws a page by writing down what its glyphs say.
struct PdfReader {
    lines: PdfLines,
    /// How many bytes of text may still come.
    left: usize,
}

impl PdfReader {
    fn glyph(&mut self, glyph: &PositionedGlyph<'_>, run: Affine) {
        let text = match glyph.as_unicode() {
            Some(BfString::Char(character)) => character.to_string(),
            Some(BfString::String(several)) => several,
            None => return,
        };
        self.left = self.left.saturating_sub(text.len());
        if self.left == 0 {
            return;
        }
        let advance = match &**glyph {
            Glyph::Outline(glyph) => glyph.advance_width(),
            Glyph::Type3(glyph) => glyph.advance_width(),
        };
        let advance = advance.map_or(USUAL_ADVANCE, f64::from);
        let transform = run * glyph.transform();
        let [_, _, x, y, _, _] = transform.as_coeffs();
        let start = transform * Point::ZERO;
        let end = transform * Point::new(advance, 0.0);
        self.lines.add(&text, GlyphMark { start, end, size: x.hypot(y) * UNITS_PER_EM });
    }
}

impl<'a> Device<'a> for PdfReader {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, properties: DrawProps<'a>, _: &DrawMode) {
        for glyph in run.glyphs() {
            self.glyph(glyph, properties.transform);
        }
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {}
    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}
