//! The fake server of the Bot API, driven by python-telegram-bot: the fake is right before our adapter
//! meets it.

use angelia_testkit::{
    python_client::PythonClient,
    telegram_server::{BotFault, TOKEN, TelegramServer},
};
use serde_json::json;

#[test]
fn real_python_telegram_bot_works_on_the_fake() {
    let server = TelegramServer::start();
    server.block(8);
    server.fail_text("limited", BotFault::TooMany(3));
    server.add_file("F1", b"some notes");
    let variables = [("TELEGRAM_URL", server.base_url()), ("TELEGRAM_TOKEN", TOKEN)];
    let client = PythonClient::start("telegram", "telegram_bot.py", variables);
    client.until("it polls", || !server.calls("getUpdates").is_empty());
    server.say(7, "hello");
    client.until("it answers", || server.messages(7).len() == 1);
    server.push(json!({"message": {
        "message_id": 50, "date": 1_700_000_000,
        "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
        "chat": {"id": 7, "type": "private"},
        "document": {"file_id": "F1", "file_unique_id": "u", "file_name": "notes.txt"},
    }}));
    client.until("it sends the file back", || server.messages(7).len() == 2);
    let back = server.messages(7)[1].file.clone().unwrap();
    assert_eq!(back, ("back.txt".to_owned(), b"some notes".to_vec()));
    let asked = server.messages(7)[0].clone();
    assert_eq!(asked.text, "got hello");
    server.press(7, &asked, "Yes");
    client.until("it decides", || server.messages(7)[0].text == "decided");
    client.finish();
    assert_eq!(server.calls("answerCallbackQuery").len(), 1);
    let edits = server.calls("editMessageText").len();
    assert!(edits >= 3, "{edits}");
}
