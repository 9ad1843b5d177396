//! The fake server of Feishu, driven by lark-oapi: the fake is right before our adapter meets it.

use angelia_testkit::{
    feishu_server::{APP_ID, APP_SECRET, ApiFault, FeishuServer, MessageKind},
    python_client::PythonClient,
};
use serde_json::json;

const PERSON: &str = "ou_7";

fn start(server: &FeishuServer, part: &str) -> PythonClient {
    let variables = [
        ("FEISHU_URL", server.base_url()),
        ("FEISHU_APP_ID", APP_ID),
        ("FEISHU_APP_SECRET", APP_SECRET),
        ("FEISHU_PART", part),
    ];
    PythonClient::start("feishu", "feishu_bot.py", variables)
}

#[test]
fn real_lark_clients_work_on_the_fake() {
    let server = FeishuServer::start();
    let chat = FeishuServer::direct_chat(PERSON);
    server.block(&FeishuServer::direct_chat("ou_8"));
    server.set_config(json!({
        "ReconnectCount": -1, "ReconnectInterval": 1, "ReconnectNonce": 0, "PingInterval": 1,
    }));
    server.add_file("file_1", "notes.txt", b"some notes");
    let client = start(&server, "client");
    client.until("it connects", || server.connections() == 1);
    server.say(PERSON, "hello");
    client.until("it answers", || server.messages(&chat).len() == 1);
    let content = json!({"file_key": "file_1", "file_name": "notes.txt"});
    server.write(PERSON, MessageKind::Direct, "file", &content, &json!({}));
    client.until("it sends the file back", || server.messages(&chat).len() == 2);
    let back = server.messages(&chat)[1].file.clone().unwrap();
    assert_eq!(back, ("back.txt".to_owned(), b"some notes".to_vec()));
    // It reconnects, and joins an event that comes in parts.
    server.cut();
    let message = json!({
        "message_id": "om_long", "chat_id": chat, "chat_type": "p2p", "message_type": "text",
        "content": json!({"text": "long ".repeat(2000)}).to_string(), "create_time": "1700000000000",
    });
    let sender = json!({"sender_id": {"open_id": PERSON}, "sender_type": "user"});
    let event = json!({"sender": sender, "message": message});
    server.push_parts("im.message.receive_v1", &event, 2);
    client.until("it reads the parts", || server.messages(&chat).len() == 3);
    let asked = server.messages(&chat)[0].clone();
    assert_eq!((asked.text.as_str(), asked.buttons[0].0.as_str()), ("got 5", "Yes"));
    server.fail_text("limited", ApiFault::TooMany(3));
    client.until("it pings in the server's interval", || server.pings().len() >= 2);
    server.press(PERSON, &asked, "Yes");
    client.until("it decides", || server.messages(&chat)[0].text == "decided");
    client.finish();
    assert!(server.is_acknowledged());
    assert!(server.acks().iter().all(|ack| !ack.frame.header("biz_rt").is_empty()));
    let answer = server.acks().iter().find_map(|ack| ack.answer.clone()).unwrap();
    assert_eq!(answer["toast"]["content"], "noted");
    let texts: Vec<String> = server.messages(&chat).into_iter().map(|one| one.text).collect();
    assert_eq!(texts.iter().filter(|text| *text == "once").count(), 1);
    assert_eq!(texts.last().unwrap(), "so far, so good");
}

#[test]
fn real_lark_channel_streams_on_the_fake() {
    let server = FeishuServer::start();
    let chat = FeishuServer::direct_chat(PERSON);
    let client = start(&server, "channel");
    client.until("it connects", || server.connections() == 1);
    server.say(PERSON, "count");
    client.until("it has streamed", || {
        let messages = server.messages(&chat);
        messages.first().is_some_and(|one| one.text == "one two three" && !one.is_streaming)
    });
    client.finish();
    let sequences: Vec<i64> = server
        .calls("card_text")
        .iter()
        .chain(&server.calls("card_settings"))
        .filter_map(|call| call.fields["sequence"].as_i64())
        .collect();
    assert!(sequences.is_sorted() && sequences.len() >= 2, "{sequences:?}");
}
