//! A settings file or a URL chooses the backend.
//!
//! ```text
//! cargo run --example choose_backend                            # service.toml of this folder: memory
//! cargo run --example choose_backend -- path/to/service.toml    # your own file
//! cargo run --example choose_backend -- redis://localhost       # or a URL: also prints it as a file
//! ```

use std::error::Error;
use std::path::Path;

use latchwork::{Config, Coordinator, Secret};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Settings {
    importer: Importer,
    coordinator: Config,
}

#[derive(Serialize, Deserialize)]
struct Importer {
    batch: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("this build has: {}", latchwork::compiled_backends().join(", "));
    let mut settings = match std::env::args().nth(1) {
        Some(url) if url.contains("://") => from_url(&url)?,
        Some(path) => from_file(Path::new(&path))?,
        None => {
            from_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/choose_backend/service.toml"))?
        }
    };
    // The environment is a better place for a password than the file.
    if let Ok(password) = std::env::var("COORDINATOR_PASSWORD") {
        settings.coordinator.password = Some(Secret::new(password));
    }

    // Also closes the coordinator after an early `?`.
    latchwork::with(&settings.coordinator, async |coordinator| import(&settings, &coordinator).await).await
}

async fn import(settings: &Settings, coordinator: &Coordinator) -> Result<(), Box<dyn Error>> {
    // Random for this example. A service has a fixed key.
    let importer = coordinator.mutex(format!("importer-{}", uuid::Uuid::new_v4()))?;
    let hold = importer.acquire().await?;
    println!(
        "{}: imports a batch of {} with token {}, with a lease of {:?}",
        settings.coordinator.backend,
        settings.importer.batch,
        hold.token(),
        coordinator.lease().ttl(), // as granted: a server may have a minimum
    );
    println!("{:#?}", coordinator.capabilities());
    hold.release().await?;
    Ok(())
}

fn from_file(path: &Path) -> Result<Settings, Box<dyn Error>> {
    let (text, shown) = (std::fs::read_to_string(path), path.display());
    let text = text.map_err(|error| format!("{shown}: {error}"))?;
    let settings = toml::from_str(&text).map_err(|error| {
        // The error would quote the line, which may contain the password.
        let line = text[..error.span().map_or(0, |span| span.start)].matches('\n').count() + 1;
        format!("{shown}, line {line}: {}", error.message())
    });
    Ok(settings?)
}

fn from_url(url: &str) -> Result<Settings, Box<dyn Error>> {
    let settings = Settings { importer: Importer { batch: 100 }, coordinator: Config::from_url(url)? };
    let file = toml::to_string(&settings)?;
    println!("as a file:\n\n{file}");
    let mut read: Settings = toml::from_str(&file)?;
    read.coordinator.password.clone_from(&settings.coordinator.password);
    assert_eq!(read.coordinator, settings.coordinator);
    Ok(settings)
}
