"""Sequences that once broke the invariant, or were written to break it."""

FILES = {
    "a planned file that is away when its batch is read, and comes back": """
        create a.log #1 #6
        create b.log #2 #6
        create c.log #3 #6
        create d.log #4 #6
        create e.log #5 #6
        create z.log #6 #6
        run {0 after away z.log}
        back z.log
        run
    """,
    "a planned file that is away, and whose loss is accepted, comes back": """
        create a.log #1 #6
        create b.log #2 #6
        create z.log #3 #6
        run {0 before stop}
        away a.log
        run
        recover-accept
        run
        back a.log
        run
        prove-full
    """,
    "a file that is filled after it was listed empty, and names that are no UTF-8": """
        empty filled.log
        create a.log #1 #3
        run
        append filled.log #2 #3
        run
        create latin%E9.log #3 #3
        create d%E9r/inside.log #4 #3
        run
    """,
    "a file dated far in the future, and files after it": """
        create a.log #1 #3
        date a.log #7258118400
        run
        create b.log #2 #3
        create c.log #3 #3
        date c.log #0
        run
        prove
    """,
    "a directory that is called _metadata": """
        create _metadata/m.log #1 #5
        create _metadata.log #2 #2
        create a.log #3 #2
        run
        rename _metadata/m.log m.log
        run
        prove-deep
    """,
    "a directory behind a link": """
        create sub/a.log #1 #3
        link linked sub
        run
        append sub/a.log #3 #1
        run
    """,
    "a link into the directory above it": """
        create sub/a.log #1 #3
        loop sub/up
        run
    """,
    "a file that grows, shrinks, is replaced, is swapped unseen": """
        create a.log #1 #5
        create b.log #2 #5
        create c.log #3 #5
        run
        swap-unseen c.log
        prove
        prove-deep
        swap b.log
        prove
        truncate a.log #40
        run
    """,
    "a rebuild after a file was swapped unseen": """
        create a.log #2 #4
        run
        swap-unseen a.log
        rebuild
        rebuild-accept
    """,
    "a rebuild after files are gone or cut": """
        create a.log #1 #6
        create b.log #2 #6
        run
        delete a.log
        rebuild
        rebuild-accept
        replace b.log #3 #60
        rebuild
    """,
    "a file that is cut while it is packed, then whole": """
        create e.log.gz #1 #5
        create a.log #2 #5
        truncate e.log.gz #60
        run
        replace e.log.gz #3 #5
        run
        recover
        run
    """,
    "a file that was empty when it was read, is replaced, and is gone before it is read": """
        create other.gzip #1 #4
        truncate other.gzip #1
        run
        hide other.gzip #1
        create other.gzip #12 #2
        create c.log #15 #3
        run {0 before delete other.gzip}
    """,
    "a source that is away, empty, and back": """
        create a.log #1 #5
        run
        root-emptied
        prove
        run
        root-back
        run
        root-away
        prove
        run
        root-back
    """,
}

TOPICS = {
    "records that are deleted before they are read, also of a partition that was added": """
        send #0 #1 #4
        run
        send #0 #2 #4
        delete-records #0 #80
        prove
        add-partition
        send #2 #3 #4
        delete-records #2 #60
        run
        recover-accept
        run
    """,
    "records behind an open transaction, which are deleted before anybody can see them": """
        commit #0 #8 #3
        run
        begin #0 #10 #4
        commit #0 #11 #7
        run
        delete-records #0 #30
        prove-deep
    """,
    "a partition that is added while a batch is open": """
        send #0 #1 #8
        run {0 before stop}
        add-partition
        send #2 #2 #3
        run
    """,
    "a topic that is recreated": """
        send #0 #1 #4
        run
        recreate #2
        prove
        send #0 #2 #9
        run
        run
        rebuild
        rebuild-accept
    """,
    "a topic that is recreated after records of it were deleted unread": """
        send #1 #1 #3
        run
        send #1 #2 #9
        delete-records #1 #100
        run
        recreate #3
        rebuild-accept
    """,
    "transactions that are aborted, and one that is open": """
        send #0 #1 #2
        abort #0 #2 #3
        begin #0 #3 #2
        send #0 #4 #4
        run
        end #1
        abort #1 #5 #2
        run
    """,
}
