//! E23: images that a provider refuses.

use std::io::Cursor;

use angelia_core::model::{Content, TurnOrigin};
use angelia_executors::scripted_model::{ApiError, ModelServer, Reply};
use angelia_testkit::direct_session::{DirectSession, TurnOutput};

use crate::loop_lab::in_each_api;

/// A picture of this width; its format compresses it badly.
fn picture(width: u32) -> Content {
    let pixel = |x: u32, y: u32| image::Rgb([x, y, x ^ y].map(|part| (part * 97).to_le_bytes()[0]));
    let mut png = Vec::new();
    let picture = image::RgbImage::from_fn(width, 40, pixel);
    picture.write_to(&mut Cursor::new(&mut png), image::ImageFormat::Png).unwrap();
    Content::Image { media_type: "image/png".into(), data: png.into() }
}

async fn look(session: &mut DirectSession, image: Content) -> TurnOutput {
    let input = vec![Content::text("look"), image];
    session.turn(TurnOrigin::Owner, input, Box::new(|_, _| {})).await
}

fn is_told(output: &TurnOutput, code: &str) -> bool {
    output.notices().iter().any(|notice| &*notice.code == code)
}

/// Refuses requests with more bytes than this, and answers all others.
fn refuse_above(server: &ModelServer, bytes: usize) {
    server.respond_with(move |request| {
        Some(if request.body.len() > bytes {
            Reply::error(ApiError::ImageTooLarge)
        } else {
            Reply::text("I see it")
        })
    });
}

#[tokio::test]
async fn e23_an_image_that_is_too_large_is_sent_again_smaller_and_that_is_remembered() {
    in_each_api(async |lab| {
        refuse_above(&lab.server, 250_000);
        let mut session = lab.open().await;
        let output = look(&mut session, picture(3_200)).await;
        assert_eq!(output.answer(), "I see it", "{output:#?}");
        assert!(is_told(&output, "image_shrunk"));
        assert_eq!(lab.server.model_requests().len(), 2);
        assert!(
            lab.last_request().contains("image/jpeg")
                || lab.last_request().contains("data:image/jpeg")
        );
        // The next one is made smaller before it is sent, in another session, too.
        assert_eq!(look(&mut session, picture(3_000)).await.answer(), "I see it");
        session.close().await;
        let mut session = lab.open().await;
        assert_eq!(look(&mut session, picture(3_200)).await.answer(), "I see it");
        assert_eq!(lab.server.model_requests().len(), 4);
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn e23_an_image_that_no_size_is_small_enough_for_is_left_out() {
    in_each_api(async |lab| {
        lab.server.respond_with(|request| {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            let has_image = ["image/png", "image/jpeg"].iter().any(|kind| body.contains(kind));
            let shown = has_image && !body.contains("is not shown");
            Some(if shown {
                Reply::error(ApiError::ImageTooLarge)
            } else {
                Reply::text("I see it")
            })
        });
        let mut session = lab.open().await;
        let output = look(&mut session, picture(1_700)).await;
        assert_eq!(output.answer(), "I see it", "{output:#?}");
        assert!(is_told(&output, "images_left_out"));
        // As it is, in two sizes, and without it.
        assert_eq!(lab.server.model_requests().len(), 4);
        assert!(lab.last_request().contains("is not shown"));
        session.close().await;
    })
    .await;
}

#[tokio::test]
async fn e23_a_model_that_takes_no_images_gets_a_note_and_that_is_remembered() {
    in_each_api(async |lab| {
        lab.server.respond_with(|request| {
            let has_image = String::from_utf8_lossy(&request.body).contains("aW1hZ2U");
            Some(if has_image {
                Reply::error(ApiError::ImageRefused)
            } else {
                Reply::text("without it")
            })
        });
        let image = || Content::Image { media_type: "image/png".into(), data: (*b"image").into() };
        let mut session = lab.open().await;
        let output = look(&mut session, image()).await;
        assert_eq!(output.answer(), "without it", "{output:#?}");
        assert!(is_told(&output, "images_left_out"));
        assert_eq!(lab.server.model_requests().len(), 2);
        // What was refused once is not tried again, by this session or another one.
        assert_eq!(session.prompt("and now").await.answer(), "without it");
        session.close().await;
        let mut session = lab.open().await;
        assert_eq!(look(&mut session, image()).await.answer(), "without it");
        assert_eq!(lab.server.model_requests().len(), 4);
        assert!(lab.last_request().contains("this model takes no images"));
        session.close().await;
    })
    .await;
}
