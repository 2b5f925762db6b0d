//! Recipes for threads over those of core: the struct, the verbs, and the methods that only wait.

/// Declares a handle over the async one of the same name.
macro_rules! recipe {
    ($(#[$about:meta])+ $name:ident) => {
        $(#[$about])+
        #[derive(Clone)]
        pub struct $name {
            pub(super) recipe: crate::$name,
            pub(super) home: $crate::blocking::home::Home,
        }

        impl $name {
            pub(super) fn new(recipe: crate::$name, home: &$crate::blocking::home::Home) -> Self {
                Self { recipe, home: home.clone() }
            }
        }

        $crate::blocking::forward::shown!($name);
    };
}

/// `Debug`, as the async handle has it.
macro_rules! shown {
    ($name:ident) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.recipe.fmt(f)
            }
        }
    };
}

/// The nine ways to call a verb.
macro_rules! verb {
    (
        $recipe:ident, $verb:ident($($argument:ident: $kind:ty),*) -> $guard:ident;
        $within:ident, $with:ident;
        $try:ident, $try_with:ident;
        $owner:ident, $owner_with:ident, $try_owner:ident, $try_owner_with:ident;
    ) => {
        $crate::blocking::forward::waits! { $recipe, $guard, $verb($($argument: $kind),*) }
        $crate::blocking::forward::waits! { $recipe, $guard, $within($($argument: $kind,)* deadline: Duration) }
        $crate::blocking::forward::waits! { $recipe, $guard, $with($($argument: $kind,)* options: Acquire) }
        $crate::blocking::forward::waits! { $recipe, $guard, $owner($($argument: $kind,)* owner: &Owner) }
        $crate::blocking::forward::waits! {
            $recipe, $guard, $owner_with($($argument: $kind,)* owner: &Owner, options: Acquire)
        }
        $crate::blocking::forward::tries! { $recipe, $guard, $try($($argument: $kind),*) }
        $crate::blocking::forward::tries! { $recipe, $guard, $try_with($($argument: $kind,)* options: Acquire) }
        $crate::blocking::forward::tries! { $recipe, $guard, $try_owner($($argument: $kind,)* owner: &Owner) }
        $crate::blocking::forward::tries! {
            $recipe, $guard, $try_owner_with($($argument: $kind,)* owner: &Owner, options: Acquire)
        }
    };
}

/// One way that waits its turn.
macro_rules! waits {
    ($recipe:ident, $guard:ident, $name:ident($($argument:ident: $kind:ty),*)) => {
        #[doc = $crate::blocking::forward::as_async!($recipe, $name)]
        pub fn $name(&self, $($argument: $kind),*) -> Result<$guard> {
            Ok($guard::new(self.home.run(self.recipe.$name($($argument),*))?, &self.home))
        }
    };
}

/// One way that never waits.
macro_rules! tries {
    ($recipe:ident, $guard:ident, $name:ident($($argument:ident: $kind:ty),*)) => {
        #[doc = $crate::blocking::forward::as_async!($recipe, $name)]
        pub fn $name(&self, $($argument: $kind),*) -> Result<Option<$guard>> {
            let tried = self.home.run(self.recipe.$name($($argument),*))?;
            Ok(tried.map(|hold| $guard::new(hold, &self.home)))
        }
    };
}

/// Methods that do what the async method does, and wait for it.
macro_rules! forward {
    ($recipe:ident: $($(#[$about:meta])+ fn $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)+) => {$(
        $(#[$about])+
        ///
        #[doc = $crate::blocking::forward::as_async!($recipe, $name)]
        pub fn $name(&self, $($argument: $kind),*) -> Result<$answer> {
            self.home.run(self.recipe.$name($($argument),*))
        }
    )+};
}

/// The key and the address of a handle.
macro_rules! keyed {
    () => {
        /// The key, as it was given.
        pub fn key(&self) -> &str {
            self.recipe.key()
        }

        /// Its address on the coordinator.
        pub fn address(&self) -> &crate::Address {
            self.recipe.address()
        }
    };
}

/// Where the async method is documented.
macro_rules! as_async {
    ($recipe:ident, $name:ident) => {
        concat!(
            "As [`",
            stringify!($recipe),
            "::",
            stringify!($name),
            "`](crate::",
            stringify!($recipe),
            "::",
            stringify!($name),
            "), with its errors, and `InAsyncCode`."
        )
    };
}

pub(super) use {as_async, forward, keyed, recipe, shown, tries, verb, waits};
