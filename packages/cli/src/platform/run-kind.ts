/** The two kinds of hosted runs, as their commands are called. */
export type RunKind = 'eval' | 'train'

/** How the platform, and a workspace, call things of a kind. */
export const runWords = {
  eval: { route: 'eval-runs', list: 'eval_runs', one: 'eval_run', config: 'eval' },
  train: {
    route: 'training-runs',
    list: 'training_runs',
    one: 'training_run',
    config: 'training',
  },
} as const
