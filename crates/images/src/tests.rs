//! Good images of every format, and bad ones.

use image::codecs::gif::GifEncoder;
use image::{DynamicImage, Frame, ImageBuffer, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};

use super::*;

fn png(image: &DynamicImage) -> Vec<u8> {
    as_format(image, ImageFormat::Png)
}

fn as_format(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    image.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    bytes
}

/// A picture that is red on the left and blue on the right.
fn two_halves(width: u32, height: u32) -> DynamicImage {
    let half = |x, _| if x < width / 2 { Rgb([220, 20, 20]) } else { Rgb([20, 20, 220]) };
    RgbImage::from_fn(width, height, half).into()
}

/// A PNG whose header claims this size, and which has hardly any pixels.
fn boasting_png(width: u32, height: u32) -> Vec<u8> {
    let chunk = |kind: &[u8; 4], data: &[u8]| {
        let mut hash = crc32fast::Hasher::new();
        hash.update(kind);
        hash.update(data);
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&length[..], kind, data, &hash.finalize().to_be_bytes()[..]].concat()
    };
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes()[..], &[8, 2, 0, 0, 0]].concat();
    let data = [0x78, 0x9c, 0x63, 0x00, 0x00, 0x00, 0x01, 0x00, 0x01];
    let parts = [chunk(b"IHDR", &header), chunk(b"IDAT", &data), chunk(b"IEND", &[])];
    [&b"\x89PNG\r\n\x1a\n"[..], &parts.concat()].concat()
}

/// A JPEG with an EXIF block that says how it is to be turned, and a comment.
fn exif_jpeg(image: &DynamicImage, orientation: u8) -> Vec<u8> {
    let plain = as_format(image, ImageFormat::Jpeg);
    let tiff = [
        &b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01"[..],
        &[0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let segment = |marker: u8, data: &[u8]| {
        let length = u16::try_from(data.len() + 2).unwrap().to_be_bytes();
        [&[0xff, marker][..], &length, data].concat()
    };
    let comment = segment(0xfe, b"taken at my home");
    [&plain[..2], &segment(0xe1, &tiff), &comment, &plain[2..]].concat()
}

fn reread(kept: &KeptImage) -> DynamicImage {
    image::load_from_memory(&kept.bytes).unwrap()
}

#[test]
fn every_format_is_taken_and_becomes_a_jpeg() {
    let image = two_halves(64, 32);
    let formats = [
        (ImageFormat::Png, "image/png"),
        (ImageFormat::Jpeg, "image/jpeg"),
        (ImageFormat::WebP, "image/webp; q=1"),
        (ImageFormat::Gif, "IMAGE/GIF"),
    ];
    for (format, declared) in formats {
        let kept = keep_image(&as_format(&image, format), Some(declared)).unwrap();
        assert_eq!((kept.media_type, kept.width, kept.height), ("image/jpeg", 64, 32), "{format:?}");
        let pixels = reread(&kept).into_rgb8();
        assert!(pixels.get_pixel(4, 16).0[0] > 180 && pixels.get_pixel(60, 16).0[2] > 180, "{format:?}");
    }
    assert!(
        keep_image(&png(&image), None).is_ok()
            && keep_image(&png(&image), Some("application/octet-stream")).is_ok()
    );
}

#[test]
fn transparency_stays_and_an_opaque_alpha_channel_goes() {
    let seen_through: RgbaImage =
        ImageBuffer::from_fn(20, 10, |x, _| Rgba([9, 9, 9, if x < 3 { 0 } else { 255 }]));
    let kept = keep_image(&png(&seen_through.into()), Some("image/png")).unwrap();
    assert_eq!(kept.media_type, "image/png");
    assert_eq!(reread(&kept).into_rgba8().get_pixel(0, 0).0[3], 0);
    let opaque: RgbaImage = ImageBuffer::from_pixel(20, 10, Rgba([9, 9, 9, 255]));
    assert_eq!(keep_image(&png(&opaque.into()), None).unwrap().media_type, "image/jpeg");
}

#[test]
fn a_large_image_is_scaled_and_a_small_one_is_not() {
    let kept = keep_image(&png(&two_halves(4096, 1000)), None).unwrap();
    assert_eq!((kept.width, kept.height), (2048, 500));
    let kept = keep_image(&png(&two_halves(3000, 1)), None).unwrap();
    assert_eq!((kept.width, kept.height), (2048, 1), "no side vanishes");
    let kept = keep_image(&png(&two_halves(1, 1)), None).unwrap();
    assert_eq!((kept.width, kept.height), (1, 1));
}

#[test]
fn an_image_whose_bytes_stay_many_is_scaled_further() {
    let mut seed = 1u32;
    let noise: RgbaImage = ImageBuffer::from_fn(1200, 1200, |_, _| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Rgba((seed ^ 0x5a5a).to_be_bytes())
    });
    let kept = keep_image(&png(&noise.into()), None).unwrap();
    assert!(kept.bytes.len() <= MAX_KEPT_BYTES, "{}", kept.bytes.len());
    assert!(kept.width < 1200 && kept.width == kept.height, "{}", kept.width);
}

#[test]
fn an_image_is_turned_as_its_camera_was_held_and_loses_what_else_it_says() {
    let upload = exif_jpeg(&two_halves(64, 32), 6);
    assert!(upload.windows(4).any(|part| part == b"home"));
    let kept = keep_image(&upload, Some("image/jpeg")).unwrap();
    assert_eq!((kept.width, kept.height), (32, 64), "a quarter turn to the right");
    let pixels = reread(&kept).into_rgb8();
    assert!(
        pixels.get_pixel(16, 4).0[0] > 180 && pixels.get_pixel(16, 60).0[2] > 180,
        "the left is at the top"
    );
    assert!(!kept.bytes.windows(4).any(|part| part == b"home" || part == b"Exif"));
}

#[test]
fn the_first_frame_of_an_animation_is_kept() {
    let mut bytes = Vec::new();
    let frame = |colour| Frame::new(ImageBuffer::from_pixel(16, 16, Rgba(colour)));
    let mut encoder = GifEncoder::new(&mut bytes);
    encoder.encode_frames([frame([255, 0, 0, 255]), frame([0, 0, 255, 255])]).unwrap();
    drop(encoder);
    let kept = keep_image(&bytes, Some("image/gif")).unwrap();
    let middle = reread(&kept).into_rgb8().get_pixel(8, 8).0;
    assert!(middle[0] > 200 && middle[2] < 60, "{middle:?}");
}

#[test]
fn trailing_data_of_a_polyglot_is_dropped() {
    let script = b"<script>alert(1)</script>";
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif] {
        let mut upload = as_format(&two_halves(16, 16), format);
        upload.extend_from_slice(script);
        let kept = keep_image(&upload, None).unwrap();
        assert!(!kept.bytes.windows(script.len()).any(|part| part == script), "{format:?}");
    }
}

#[test]
fn too_many_pixels_are_refused_before_any_is_decoded() {
    let bomb = boasting_png(10_000, 5_000);
    let refused = ImageProblem::TooManyPixels { width: 10_000, height: 5_000 };
    assert_eq!(keep_image(&bomb, Some("image/png")), Err(refused));
    assert_eq!(refused.code(), "image_too_large");
    let largest = boasting_png(u32::MAX >> 1, u32::MAX >> 1);
    assert!(matches!(keep_image(&largest, None).unwrap_err().code(), "image_too_large" | "image_unreadable"));
    let deep: ImageBuffer<Rgba<u16>, Vec<u16>> = ImageBuffer::new(4_000, 3_000);
    let refused = keep_image(&png(&deep.into()), None);
    assert_eq!(refused, Err(ImageProblem::TooMuchMemory), "twelve million pixels of eight bytes");
}

#[test]
fn what_is_cut_off_is_broken() {
    let image = two_halves(300, 200);
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP, ImageFormat::Gif] {
        let whole = as_format(&image, format);
        for cut in [whole.len() / 2, whole.len() / 4, 20] {
            let refused = keep_image(&whole[..cut], None);
            assert_eq!(refused, Err(ImageProblem::Broken), "{format:?} cut to {cut} of {}", whole.len());
        }
    }
    assert_eq!(
        keep_image(&boasting_png(100, 100), None),
        Err(ImageProblem::Broken),
        "a header without pixels"
    );
}

#[test]
fn other_formats_and_wrong_content_types_are_refused() {
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
    for (upload, declared) in [
        (&svg[..], "image/svg+xml"),
        (b"", "image/png"),
        (b"BM\0\0", "image/bmp"),
        (b"%PDF-1.7", "image/png"),
    ] {
        assert_eq!(keep_image(upload, Some(declared)), Err(ImageProblem::Unsupported), "{declared}");
    }
    let jpeg = as_format(&two_halves(8, 8), ImageFormat::Jpeg);
    let other = ImageProblem::OtherType { said: UploadFormat::Png, found: UploadFormat::Jpeg };
    assert_eq!(keep_image(&jpeg, Some("image/png")), Err(other));
    assert_eq!(keep_image(&jpeg, Some("text/html")), Err(ImageProblem::NoImageType(UploadFormat::Jpeg)));
    assert_eq!(other.code(), "image_type_mismatch");
    assert!(keep_image(&jpeg, Some("image/jpg")).is_ok());
}

#[test]
fn every_layout_of_pixels_is_read() {
    let image = two_halves(40, 20);
    let layouts = [
        DynamicImage::from(image.to_rgb8()),
        image.to_rgba8().into(),
        image.to_rgb16().into(),
        image.to_rgba16().into(),
    ];
    for layout in layouts {
        let pixels = reread(&keep_image(&png(&layout), None).unwrap()).into_rgb8();
        assert!(
            pixels.get_pixel(4, 10).0[0] > 180 && pixels.get_pixel(36, 10).0[2] > 180,
            "{:?}",
            layout.color()
        );
    }
    for grey in
        [DynamicImage::from(image.to_luma8()), image.to_luma16().into(), image.to_luma_alpha8().into()]
    {
        let [red, green, blue] =
            reread(&keep_image(&png(&grey), None).unwrap()).into_rgb8().get_pixel(4, 10).0;
        assert!(red.abs_diff(green) < 8 && green.abs_diff(blue) < 8 && red > 20, "{:?}", grey.color());
    }
}

#[test]
fn every_orientation_of_a_camera_is_turned_as_the_library_of_images_turns_it() {
    let image = RgbImage::from_fn(48, 32, |x, y| Rgb([(x * 5) as u8, (y * 7) as u8, 90]));
    for number in 1..=8 {
        let mut wanted = DynamicImage::from(image.clone());
        wanted.apply_orientation(Orientation::from_exif(number).unwrap());
        let kept = keep_image(&exif_jpeg(&image.clone().into(), number), None).unwrap();
        let (got, wanted) = (reread(&kept).into_rgb8(), wanted.into_rgb8());
        assert_eq!(got.dimensions(), wanted.dimensions(), "{number}");
        let near = |(a, b): (&u8, &u8)| a.abs_diff(*b) < 40;
        assert!(got.iter().zip(wanted.iter()).all(near), "{number}");
    }
}
