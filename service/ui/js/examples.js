// Questions to begin with, for the corpus of `wye demo`; other corpora have none.

export const DEMO = "demo";

export const EXAMPLES = [
  "Which famous composer was for a year organist in the town where the planner of the Brooklyn Bridge was born?",
  "Which motor cars are assembled in the town where the designer of the fastest steam locomotive was an apprentice?",
  "Which programming language is older, Fortran or Lisp?",
  "How was a railway laid across the peat bog of Chat Moss?",
  "what does the name of the ship fram mean",
  "steam speed world record 1938 mph",
];
