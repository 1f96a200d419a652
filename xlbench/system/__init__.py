"""The lowest floor: files, locks, limits, errors and the machine; nothing here knows a model.

  errors     mistakes of a user and troubles of a machine, each in one plain line
  command_line  programs' flags as data: a parser and --help from them; former programs
  ranges     the values that a setting may have, as constraints in its type
  untrusted  files from elsewhere: regular files inside a folder, and limits on what is read
  files      small files, written whole or not at all, and checked when they are read
  locks      one writer at a time
  sessions   the cost of a run: how long processes worked for it
  progress   how far something is, in one line
  work       work in other processes, or begun before earlier work has ended
  machine    memory, cores and limits of this machine and this process
  web        asks a server, with a limit on time and size
  trees      types of the trees of arrays that models, optimizers and checkpoints are made of
"""
