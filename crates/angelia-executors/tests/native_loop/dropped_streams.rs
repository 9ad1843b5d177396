//! E28: an answer that breaks off is one notice; it is asked for again before any text was shown, and
//! continued after.

use angelia_executors::scripted_model::{Fault, Reply, ReplyBlock, StreamBreak};

use crate::loop_lab::{calls, detail_of, in_each_api, run_call};

fn text(text: &str) -> ReplyBlock {
    ReplyBlock::Text(text.to_owned())
}

#[tokio::test]
async fn e28_a_call_that_is_cut_is_discarded_and_asked_for_again() {
    in_each_api(async |lab| {
        for cut in [StreamBreak::Reset, StreamBreak::End] {
            let before = lab.runs();
            let replies =
                [calls([run_call()]).with_cut(cut), calls([run_call()]), Reply::text("done")];
            let output = lab.turn(replies).await;
            assert_eq!((output.answer(), lab.runs() - before), ("done", 1), "{output:#?}");
            let detail = detail_of(&output, "stream_dropped");
            assert_eq!((&detail["status"], &detail["in_tool_call"]), (&200.into(), &true.into()));
            for field in ["bytes", "frames"] {
                assert!(detail[field].as_u64().unwrap() > 0, "{field}: {detail}");
            }
            for field in ["ttfb_ms", "elapsed_ms", "attempt", "of"] {
                assert!(detail[field].is_number(), "{field}: {detail}");
            }
            assert!(detail["request_id"].as_str().unwrap().starts_with("req_test"), "{detail}");
            assert!(!detail["cause"].as_array().unwrap().is_empty(), "{detail}");
        }
    })
    .await;
}

#[tokio::test]
async fn e28_an_error_frame_is_reported_and_the_request_sent_again() {
    in_each_api(async |lab| {
        let cut_call = calls([run_call()]).with_cut(StreamBreak::ErrorFrame);
        let replies =
            [Reply::fault(Fault::ErrorEvent), cut_call, calls([run_call()]), Reply::text("done")];
        let output = lab.turn(replies).await;
        assert_eq!((output.answer(), lab.runs()), ("done", 1), "{output:#?}");
    })
    .await;
}

#[tokio::test]
async fn e28_text_that_was_shown_stays_and_is_continued() {
    in_each_api(async |lab| {
        for cut in [StreamBreak::Reset, StreamBreak::End, StreamBreak::ErrorFrame] {
            let first = calls([text("The first half is shown, the second is not.")]).with_cut(cut);
            let output = lab.turn([first, Reply::text("And the rest.")]).await;
            let shown = output.deltas();
            assert!(shown.starts_with("The first half"), "{shown}");
            assert_eq!(shown.matches("The first").count(), 1, "shown twice: {shown}");
            assert!(output.answer().ends_with("And the rest."), "{output:#?}");
            let asked = lab.last_request();
            assert!(asked.contains("The first half") && asked.ends_with_the_user(), "{asked:#?}");
            detail_of(&output, "stream_dropped");
        }
    })
    .await;
}

#[tokio::test]
async fn e28_a_call_after_text_is_not_run_twice_when_the_answer_is_continued() {
    in_each_api(async |lab| {
        let first = calls([text("I will run it."), run_call()]).with_cut(StreamBreak::Reset);
        let output = lab.turn([first, calls([run_call()]), Reply::text("done")]).await;
        assert_eq!((output.answer(), lab.runs()), ("done", 1), "{output:#?}");
        let shown = output.deltas();
        assert_eq!(shown.matches("I will run it.").count(), 1, "{shown}");
    })
    .await;
}

#[tokio::test]
async fn e28_what_is_no_answer_at_all_is_asked_for_again() {
    in_each_api(async |lab| {
        for fault in [Fault::BadJson, Fault::Empty] {
            let output = lab.turn([Reply::fault(fault), Reply::text("done")]).await;
            assert_eq!(output.answer(), "done", "{fault:?}: {output:#?}");
        }
    })
    .await;
}

#[tokio::test]
async fn e28_a_page_of_a_gateway_is_no_answer() {
    in_each_api(async |lab| {
        let output = lab.turn([Reply::fault(Fault::Html), Reply::text("done")]).await;
        assert_eq!(output.answer(), "done", "{output:#?}");
    })
    .await;
}
