import { z } from 'zod'

import {
  count,
  listOf,
  listQuery,
  logQuery,
  logs,
  noBody,
  record,
  text,
  type Contract,
} from './stand-in-models.ts'

/** Sections without keys are left out. */
const section = record.refine((keys) => Object.keys(keys).length > 0, 'an empty section')

const times = {
  created_at: text,
  started_at: text.nullish(),
  completed_at: text.nullish(),
  creator_name: text.nullish(),
  creator_email: text.nullish(),
  platform_url: text.nullish(),
}
const reference = z.strictObject({ id: text, name: text })
const about = {
  dataset: reference,
  rollout: reference,
  config: record.nullish(),
  entrypoint: text.nullish(),
  branch: text.nullish(),
  commit_sha: text.nullish(),
  env_config: record.nullish(),
  resolved_secret_scopes: record.nullish(),
  is_internal_user: z.boolean().optional(),
}
const evalStatus = z.enum(['pending', 'running', 'finished', 'failed', 'stopped'])
const evalRun = { id: text, name: text, status: evalStatus, ...times }
const trainingStatus = z.enum([
  ...evalStatus.options,
  ...(['queued', 'crashed', 'killed', 'unknown'] as const),
])
const trainingRun = {
  id: text,
  name: text,
  status: trainingStatus,
  ...times,
  current_step: count.nullish(),
  total_steps: count.nullish(),
  reward: z.number().nullish(),
}
const submitted = z.strictObject({
  id: text,
  name: text,
  status: text,
  created_at: text,
  platform_url: text.nullish(),
})
const submission = {
  experiment_config: z.strictObject({
    rollout: text,
    entrypoint: text,
    model_path: text,
    dataset: text,
    branch: text.optional(),
    commit_sha: text.optional(),
  }),
  advanced_config: section.optional(),
  env_config: z.record(z.string(), z.string()).optional(),
  secrets: z
    .strictObject({
      required: z.array(text),
      provided: z.record(z.string(), z.string()).optional(),
    })
    .optional(),
}
const number = z.number().nullish()

/** Requests and answers about evaluation runs and training runs. */
export const runContract: Contract = {
  'GET eval-runs': {
    query: listQuery,
    answer: listOf(
      'eval_runs',
      z.strictObject({
        ...evalRun,
        model: reference,
        dataset: reference,
        rollout: reference,
        results: record.nullish(),
        config: record.nullish(),
      }),
    ),
  },
  'POST eval-runs': {
    body: z.strictObject({ ...submission, evaluation_config: section.optional() }),
    answer: submitted,
  },
  'GET eval-runs/:': {
    answer: z.strictObject({
      eval_run: z.strictObject(evalRun),
      ...about,
      results: record.nullish(),
      dataset_df_stats: record.nullish(),
    }),
  },
  'GET eval-runs/:/metrics': {
    answer: z.strictObject({
      status: evalStatus,
      overview: z.strictObject({
        duration_ms: number,
        total_samples: number,
        completed_samples: number,
        graded: number,
        passed: number,
        failed: number,
        skipped: number,
        pass_rate: number,
        pass_threshold: number,
        tokens_used: number,
      }),
      reward_stats: z
        .strictObject({ mean: number, median: number, std: number, min: number, max: number })
        .nullish(),
      pass_at_k: z.array(z.strictObject({ k: count, value: z.number() })).optional(),
    }),
  },
  'GET eval-runs/:/logs': { query: logQuery, answer: logs },
  'POST eval-runs/:/stop': { body: noBody },
  'POST eval-runs/:/retry': {
    body: noBody,
    answer: z.strictObject({
      id: text,
      name: text,
      status: text,
      workflow_id: text,
      retryable_samples: count,
      platform_url: text.nullish(),
    }),
  },
  'GET eval-runs/:/samples/manifest': {
    query: z.strictObject({ types: text, rows: text.optional() }),
    answer: z.strictObject({
      files: z.array(z.strictObject({ path: text, size: count, token: text.optional() })),
      totals: record,
    }),
  },
  'POST eval-runs/:/samples/download-urls': {
    body: z.strictObject({
      items: z
        .array(z.strictObject({ path: text, token: text.optional() }))
        .min(1)
        .max(500),
    }),
    answer: z.strictObject({
      items: z.array(z.strictObject({ path: text, url: text, token: text.optional() })),
      expires_in: count,
    }),
  },
  'GET training-runs': {
    query: listQuery,
    answer: listOf(
      'training_runs',
      z.strictObject({
        ...trainingRun,
        model: z.strictObject({ id: text, model_name: text }),
        dataset: z.strictObject({ id: text, file_name: text }),
        rollout: reference,
      }),
    ),
  },
  'POST training-runs': {
    body: z.strictObject({
      ...submission,
      training_config: section.optional(),
      sampling_config: section.optional(),
      checkpoints_config: section.optional(),
    }),
    answer: submitted,
  },
  'GET training-runs/:': {
    answer: z.strictObject({
      training_run: z.strictObject({
        ...trainingRun,
        examples_processed_count: count.nullish(),
        notes: z.string().nullish(),
      }),
      model: reference,
      ...about,
    }),
  },
  'GET training-runs/:/metrics': {
    answer: z.strictObject({
      status: trainingStatus,
      overview: z.strictObject({
        duration_ms: number,
        metric_summaries: z
          .array(
            z.strictObject({
              key: text,
              title: text,
              initial: number,
              latest: number,
              delta: number,
              min: number,
              max: number,
            }),
          )
          .optional(),
        examples_processed_count: count.nullish(),
        latest_step: count.nullish(),
        total_steps: count.nullish(),
      }),
      metrics: z.array(
        z.strictObject({
          metric_key: text,
          title: text,
          data_points: z.array(
            z.strictObject({ step: count, value: z.number(), timestamp: count }),
          ),
        }),
      ),
    }),
  },
  'GET training-runs/:/logs': { query: logQuery, answer: logs },
  'POST training-runs/:/stop': { body: noBody },
  'GET training-runs/:/checkpoints': {
    answer: z.strictObject({
      training_run_name: text,
      checkpoints: z.array(
        z.strictObject({
          id: text,
          checkpoint_step: count,
          status: text,
          checkpoint_name: z.string().optional(),
          created_at: text.optional(),
        }),
      ),
    }),
  },
}
