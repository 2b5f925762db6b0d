package peers;

/** A recipe of a library, and what it can be measured as. */
record Peer(String name, String version, String server, Opener opener) {
    /** Opens a client: connection, session and all. */
    interface Opener {
        /** @param many whether many clients are opened in this process, which then share what they can */
        Client open(boolean many) throws Exception;
    }

    /** A client. What it has not is not measured. */
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

    /** A lock, a semaphore of one permit or a candidature: one at a time. */
    interface Lock {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    interface Counter {
        void add(long number) throws Exception;

        long get() throws Exception;
    }

    /** Something that one fires and many wait for, round by round. */
    interface Signal {
        /** Before anybody waits for this round; of the one who fires. */
        default void prepare(int round) throws Exception {}

        void fire(int round) throws Exception;

        void await(int round) throws Exception;
    }
}
