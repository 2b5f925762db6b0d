use futures_util::Stream;
use futures_util::stream::{self, TryStreamExt};

use crate::error::{Error, Result};

/// Each page says where the next one starts.
pub(crate) fn all<After: Send, T: Send, Read>(
    first: After,
    mut page: impl FnMut(After) -> Read + Send,
) -> impl Stream<Item = Result<T>> + Send
where
    Read: Future<Output = Result<(Vec<T>, Option<After>)>> + Send,
{
    let pages = stream::try_unfold(Some(first), move |after| {
        let page = after.map(&mut page);
        async move {
            let Some(page) = page else { return Ok::<_, Error>(None) };
            let (found, next) = page.await?;
            Ok(Some((stream::iter(found.into_iter().map(Ok)), next)))
        }
    });
    pages.try_flatten()
}
