package peers;

/** A recipe of a library, with the interfaces for its measures. */
record Peer(String name, String version, String server, Opener opener) {
    /** Opens a client with its connection and session. */
    interface Opener {
        /** @param many whether this process opens many clients, which then share resources if they can */
        Client open(boolean many) throws Exception;
    }

    /** A client. A missing recipe is not measured. */
    interface Client extends AutoCloseable {
        default Lock lock(String key) throws Exception {
            throw new UnsupportedOperationException();
        }

        default Counter counter(String key) throws Exception {
            throw new UnsupportedOperationException();
        }

        default Signal signal(String key) throws Exception {
            throw new UnsupportedOperationException();
        }

        @Override
        void close();
    }

    /** A lock, a semaphore of one permit or a candidature: one holder at a time. */
    interface Lock {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    interface Counter {
        void add(long number) throws Exception;

        long get() throws Exception;
    }

    /** A signal that one client fires and many wait for, in rounds. */
    interface Signal {
        /** Called by the firing client before another client waits for this round. */
        default void prepare(int round) throws Exception {}

        void fire(int round) throws Exception;

        void await(int round) throws Exception;
    }
}
