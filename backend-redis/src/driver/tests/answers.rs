use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

pub(super) async fn read_request(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Vec<Vec<u8>>> {
    let words = read_length(stream, '*').await?;
    let mut request = Vec::new();
    for _ in 0..words {
        let length = read_length(stream, '$').await?;
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).await.ok()?;
        word.truncate(length);
        request.push(word);
    }
    Some(request)
}

async fn read_length(stream: &mut (impl AsyncBufRead + Unpin), kind: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}

pub(super) fn answer(request: &[Vec<u8>]) -> Vec<u8> {
    const INFO: &str =
        "redis_version:7.2.0\r\nredis_mode:standalone\r\nrole:master\r\nrun_id:scripted\r\nmaxmemory:0\r\n";
    let words: Vec<_> = request.iter().map(|word| String::from_utf8_lossy(word).to_uppercase()).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let text = match words.as_slice() {
        ["HELLO", ..] => "%1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n".to_owned(),
        ["INFO", ..] => format!("${}\r\n{INFO}\r\n", INFO.len()),
        ["SCRIPT", "EXISTS", scripts @ ..] => {
            format!("*{}\r\n{}", scripts.len(), ":1\r\n".repeat(scripts.len()))
        }
        ["EVAL" | "EVALSHA", ..] => "*0\r\n".to_owned(),
        ["PING"] => "+PONG\r\n".to_owned(),
        ["SUBSCRIBE", _] => {
            let channel = String::from_utf8_lossy(&request[1]);
            format!(">3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len())
        }
        _ => "+OK\r\n".to_owned(),
    };
    text.into_bytes()
}
