//! Remembers which images a model accepts, and shrinks images that are too large. No other file
//! decodes images.

use std::io::Cursor;

use angelia_core::model::Content;
use image::{
    DynamicImage, ImageError, ImageFormat, ImageReader, codecs::jpeg::JpegEncoder,
    imageops::FilterType,
};

/// The quality of re-encoded images, at which text in screenshots stays readable.
const JPEG_QUALITY: u8 = 80;

/// Limits learned from images that a provider refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageCare {
    /// The model takes no images.
    pub is_text_only: bool,
    /// `None` if no image was too large so far.
    pub limit: Option<ImageLimit>,
}

/// The maximum size of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLimit {
    /// Pixels of the longer side.
    side: u32,
    bytes: usize,
}

impl ImageLimit {
    /// The limits to try, in this order. Vendors name the first as the size that a model sees
    /// anyway.
    const STEPS: [Self; 2] =
        [Self { side: 1_568, bytes: 3_500_000 }, Self { side: 768, bytes: 500_000 }];

    /// Returns the next smaller limit, if there is one.
    pub fn below(limit: Option<Self>) -> Option<Self> {
        Self::STEPS.into_iter().find(|step| limit.is_none_or(|limit| step.side < limit.side))
    }

    /// Returns whether an image can be sent as it is. Data whose dimensions cannot be read only has
    /// to be small enough, because it could not be shrunk either.
    pub fn fits(self, data: &[u8]) -> bool {
        let size = reader(data).and_then(ImageReader::into_dimensions);
        data.len() <= self.bytes
            && size.map_or(true, |(width, height)| width.max(height) <= self.side)
    }

    /// Returns a smaller version of the image, or a note if the image cannot be decoded.
    pub fn shrink(self, media_type: &str, data: &[u8]) -> Content {
        match self.encode_smaller(data) {
            Ok((media_type, data)) => {
                Content::Image { media_type: media_type.into(), data: data.into() }
            }
            Err(_) => Content::text(format!(
                "[an image ({media_type}, {} bytes) is not shown: it is too large for the provider, and \
                 could not be made smaller]",
                data.len()
            )),
        }
    }

    fn encode_smaller(self, data: &[u8]) -> Result<(&'static str, Vec<u8>), ImageError> {
        let image = reader(data)?.decode()?;
        let is_large = image.width().max(image.height()) > self.side;
        let image =
            if is_large { image.resize(self.side, self.side, FilterType::Triangle) } else { image };
        // Of the two formats, only PNG supports transparency.
        if image.color().has_alpha() {
            let mut png = Vec::new();
            image.write_to(&mut Cursor::new(&mut png), ImageFormat::Png)?;
            if png.len() <= self.bytes {
                return Ok(("image/png", png));
            }
        }
        let mut jpeg = Vec::new();
        let opaque = DynamicImage::ImageRgb8(image.into_rgb8());
        JpegEncoder::new_with_quality(&mut jpeg, JPEG_QUALITY).encode_image(&opaque)?;
        Ok(("image/jpeg", jpeg))
    }
}

fn reader(data: &[u8]) -> Result<ImageReader<Cursor<&[u8]>>, ImageError> {
    Ok(ImageReader::new(Cursor::new(data)).with_guessed_format()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let image = image::RgbImage::from_fn(width, height, |x, y| {
            image::Rgb([x, y, x ^ y].map(|part| (part * 97).to_le_bytes()[0]))
        });
        let mut bytes = Vec::new();
        image.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
        bytes
    }

    #[test]
    fn a_large_image_becomes_smaller_and_keeps_its_shape() {
        let first = ImageLimit::below(None).unwrap();
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let large = picture(3_200, 800, format);
            assert!(!first.fits(&large));
            let Content::Image { media_type, data } = first.shrink("image/png", &large) else {
                panic!("no image");
            };
            assert_eq!(&*media_type, "image/jpeg");
            assert!(first.fits(&data));
            assert_eq!(reader(&data).unwrap().into_dimensions().unwrap(), (1_568, 392));
        }
        assert!(first.fits(&picture(1_568, 10, ImageFormat::Png)));
    }

    #[test]
    fn a_second_limit_is_smaller_and_the_last() {
        let first = ImageLimit::below(None);
        let second = ImageLimit::below(first);
        assert!(second.is_some_and(|second| !second.fits(&picture(1_000, 10, ImageFormat::Png))));
        assert_eq!(ImageLimit::below(second), None);
    }

    #[test]
    fn what_is_no_image_becomes_a_note() {
        let limit = ImageLimit::below(None).unwrap();
        assert!(limit.fits(b"not an image"));
        let Content::Text(note) = limit.shrink("image/webp", b"not an image") else {
            panic!("an image");
        };
        assert!(note.contains("image/webp, 12 bytes"), "{note}");
    }
}
