//! Prints `PROTOC=…` and `PROTOC_INCLUDE=…` for the protoc in this crate's dependency. The build script of etcd's client reads
//! both variables, and no other crate can set them for it.

fn main() {
    let paths = (protoc_bin_vendored::protoc_bin_path(), protoc_bin_vendored::include_path());
    match paths {
        (Ok(program), Ok(include)) => {
            println!("PROTOC={}\nPROTOC_INCLUDE={}", program.display(), include.display());
        }
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}
