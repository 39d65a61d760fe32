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
    "a file that is renamed over one whose name has a colon, and a rebuild": """
        create sub/f.log.gz #3 #2
        run {0 after unhide co%3Alon.log}
        rename-over sub/f.log.gz co%3Alon.log
        rebuild
    """,
}

TOPICS = {
    "a planned batch whose records are deleted before a rebuild": """
        send #1 #2 #5
        send #0 #3 #7
        send #1 #6 #7
        rebuild-accept {0 writing stop}
        delete-records #1 #60
        rebuild
        rebuild-accept
        prove-full
    """,
    "a topic that is recreated while a batch reads it, and a proof after that": """
        send #1 #1 #2
        run
        send #1 #5 #2
        run {0 after recreate #3}
        prove
        rebuild-accept
        prove-full
    """,
    "records that are deleted while a batch is planned, which the last rows of bronze are compared with": """
        send #0 #1 #7
        send #3 #2 #1
        send #1 #3 #8
        abort #2 #5 #2
        run {1 before delete-records #2 #60} {2 writing end #0}
    """,
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
    "records that are deleted between the first start and the first batch": """
        send #3 #1 #2
        send #3 #4 #1
        run {0 writing stop-unplanned} {1 after send #0 #5 #4}
        send #2 #7 #8
        delete-records #3 #60
        prove-deep
        recover
        run
        recover-accept
        run
    """,
}

# On files whose log format puts several lines together.
RECORDS = {
    "records in small batches, that are read again, swapped unseen and cut": """
        create a.log #1 #6
        create e.log.gz #2 #30
        run {1 before stop}
        run
        append a.log #3 #6
        run
        prove-deep
        swap-unseen e.log.gz
        prove-deep
        truncate a.log #40
        rebuild-accept
    """,
}

RULES = {
    "lines that are all refused, and repeats in one batch, in two, and after a lost checkpoint": """
        create c.log #7 #1
        run
        create d.log #1 #9
        copy d.log e.log
        run {0 before stop}
        run
        copy d.log f.log
        forget
        recover
        run
        swap d.log
        prove-deep
        rebuild-accept
        prove-full
    """,
    "a byte order mark before a line within a file": """
        create cafe%CC%81.log #1 #1
        append cafe%CC%81.log #13 #4
        run
    """,
}

TAIL = {
    "a rotated file that is packed without its time and moved to another directory": """
        append app.log #1 #3
        rotate app.log
        run
        pack app.log #1 #1
        olddir app.log #1 #0
        run
        prove-deep
    """,
    "bytes that are deleted after a batch planned or read them, before it was done": """
        append app.log #1 #5
        run {0 after stop}
        delete app.log
        append sub/web.log #2 #5
        run
        append sub/web.log #3 #5
        run {0 before stop}
        delete sub/web.log
        run
        recover-accept
        run
    """,
    "a rotated file that is deleted before it is read, and one after it was read": """
        append app.log #1 #8
        run
        rotate app.log
        append app.log #3 #8
        rotate app.log
        append app.log #4 #8
        drop app.log #1
        run
        drop app.log #2
        run
        rebuild
    """,
    "a log that is rotated, compressed and written to while batches read it": """
        append app.log #1 #30
        half app.log #2
        run {0 before rotate app.log} {0 writing append app.log #3 #8} {0 after stop}
        pack-half app.log #1 #0
        run {0 before pack app.log #1 #0} {1 before stop-unplanned}
        append app.log #4 #3
        rotate app.log
        run {0 writing stop}
        run
        prove-deep
    """,
    "a log that is copied and cut, before and while batches read it": """
        append app.log #6 #30
        run {0 before copy app.log} {1 before cut app.log}
        append app.log #7 #3
        copy app.log
        run
        cut app.log
        append app.log #8 #8
        run {0 before stop}
        pack app.log #1 #1
        run
        prove-deep
    """,
    "lines that are read from a log after it was copied and before it is cut": """
        append app.log #1 #5
        half app.log #2
        run
        copy app.log
        append-copied app.log #3 #5
        run
        cut app.log
        forget
        recover
        append app.log #4 #3
        run
        pack app.log #1 #0
        run
        prove-deep
    """,
    "a lost checkpoint of logs that were rotated since": """
        append app.log #1 #8
        append sub/web.log #2 #8
        run
        rotate app.log
        append app.log #3 #8
        copy sub/web.log
        cut sub/web.log
        append sub/web.log #4 #3
        forget
        run
        recover
        run
        prove-full
    """,
    "logs that are away, hidden, or back": """
        append app.log #1 #30
        append sub/web.log #2 #3
        run {0 before stop}
        away app.log
        prove
        run
        back app.log
        hide sub/web.log #0
        run
        root-away
        prove
        root-back
        unhide sub/web.log
        run
    """,
}

# On growing files whose log format puts several lines together.
TAIL_RULES = {
    "a masked log that lost its last bytes is named": """
        append sub/web.log #4 #8
        run
        crash sub/web.log #60
        run
        prove
    """,
    "a log whose lines are masked in bronze, and that loses its end and grows": """
        append app.log #1 #1
        append sub/web.log #2 #3
        run
        append app.log #8 #30
        crash sub/web.log #80
        append sub/web.log #10 #2
        run
        prove
    """,
}

TAIL_RECORDS = {
    "a record that is written in two parts, in a log that is rotated": """
        append app.log #1 #8
        half-record app.log #2
        run
        rest-of-record app.log #2
        append app.log #3 #30
        copy app.log
        cut app.log
        half app.log #4
        run {0 before rotate app.log} {0 after append app.log #6 #8}
        append app.log #5 #8
        run
        prove-deep
    """,
    "half a record that is written behind a whole one while a run reads": """
        append one/job.log #4 #8
        append-twins one/job.log two/job.log #12 #8
        append-twins one/job.log two/job.log #16 #2
        run {2 writing half two/job.log #17}
        run
        prove
    """,
}

SOURCES = {
    "a source that is removed before silver has ever read it": """
        create access_log/f.log #1 #5
        append tail/app.log #1 #8
        run {0 before stop} {0 before stop}
        remove #0
        run
        return #0
        run
        prove-full
    """,
    "a rebuild that accepts that silver has no line of a source that is removed, and the source comes back": """
        create access_log/c.log #1 #1
        append tail/app.log #1 #2
        run
        remove #1
        rebuild-accept
        prove
        return #1
        run
        prove-full
    """,
    "a source that is removed, before and after silver has read its lines, and comes back": """
        create access_log/a.log #1 #6
        append tail/app.log #1 #6
        run
        append tail/app.log #2 #6
        run {0 after stop}
        remove #1
        prove
        run
        return #1
        run
        remove #1
        create access_log/b.log #3 #6
        rotate tail/app.log
        append tail/app.log #4 #6
        run
        return #1
        remove #0
        run
        return #0
        run
        prove-deep
        rebuild
    """,
    "a source that fails while the other one goes on": """
        create access_log/a.log #1 #6
        append tail/app.log #1 #30
        run {1 before fail}
        create access_log/b.log #2 #6
        run {0 writing fail}
        remove #0
        run
        forget
        run
        return #0
        recover
        run
    """,
}

# On the whole chain: silver, a gold table and a sink.
WHOLE = {
    "a batch of silver that ends within a version of bronze and refuses a line, and one that refuses none": """
        create sub/f.log.gz #1 #5
        create e.log.gz #2 #5
        run {0 before stop} {1 after stop}
        create c.log #6 #5
        watch #2
        forget
        create sub/deep/d.log #8 #2
        watch #3
        run {1 writing stop} {2 writing create sub/deep/d.log #10 #4}
        prove-full
    """,
    "a change of gold that is cut off at its files, while a run goes on, and another change before it is finished": """
        create a.log #1 #6
        create b.log #2 #6
        run
        declare #1
        create sub/a.log #3 #6
        prove
        take-over {0 before run} {1 after stop}
        watch #3
        create c.log #4 #6
        run
        take-over {1 step stop}
        declare #2
        take-over {2 step stop}
        take-over {5 step stop}
        run
        recover
        take-over {7 step stop}
        take-over
        run
        prove-full
    """,
    "each stage is killed, with both writers, and loses its checkpoint": """
        create a.log #1 #6
        create b.log #2 #6
        run {1 writing stop}
        writer #0
        watch #1
        run {0 after stop}
        watch #2
        run {1 writing stop}
        writer #1
        create c.log #3 #6
        run {0 after stop-unplanned}
        watch #3
        run {0 after stop}
        forget
        recover
        create sub/a.log #4 #6
        run {0 writing stop}
        watch #2
        forget
        run
        recover
        run
        prove-deep
        rebuild {0 after stop}
        rebuild
    """,
    "a change of gold that is killed after the sink was emptied": """
        create a.log #2 #5
        create b.log #1 #6
        run
        declare #2
        take-over {12 step stop}
        take-over
        run
    """,
}
