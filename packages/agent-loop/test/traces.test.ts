import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

import type { RolloutContext } from '@osmosis/agent-loop'
import { describe, expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { loopOf, startApp } from './running-app.ts'

/** The lines of each trace that one rollout with this id leaves, by file name. */
async function tracesOf(
  rolloutId: string,
  log: (ctx: RolloutContext) => void,
  debugDir: string | undefined,
): Promise<{ files: Record<string, unknown[]>; enabled: boolean; warnings: unknown[] }> {
  let enabled = false
  await using running = await startApp({
    ...(debugDir === undefined ? {} : { debugDir }),
    loop: loopOf((ctx) => {
      enabled = ctx.debugEnabled
      log(ctx)
      return ctx.complete([])
    }),
  })
  await running.init({ rollout_id: rolloutId, api_key: 'trainer-key' })
  expect(await running.trainer.results()).toMatchObject([{ status: 'COMPLETED' }])
  const names = debugDir === undefined ? [] : readdirSync(debugDir)
  const files = names.map((name) => {
    const text = readFileSync(path.join(debugDir ?? '', name), 'utf8')
    return [
      name,
      text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ] as const
  })
  return {
    files: Object.fromEntries(files),
    enabled,
    warnings: running.log.filter(({ level }) => level === 'warn'),
  }
}

const time = expect.stringMatching(/^\d{4}-.*Z$/) as unknown

describe('the trace of a rollout', () => {
  it('has a line for each event, in order, and is complete when the result is delivered', async () => {
    const { files, enabled } = await tracesOf(
      'exp-1.a',
      (ctx) => {
        ctx.logEvent('pre_llm', { turn: 0 })
        ctx.logEvent('tools_executed', { key: 'trainer-key' })
        ctx.logEvent('rollout_complete')
      },
      path.join(await temporaryFolder(), 'made/on/demand'),
    )
    expect(enabled).toBe(true)
    expect(files).toEqual({
      'exp-1.a.jsonl': [
        { event: 'pre_llm', rollout_id: 'exp-1.a', time, sequence: 0, turn: 0 },
        { event: 'tools_executed', rollout_id: 'exp-1.a', time, sequence: 1, key: '[redacted]' },
        { event: 'rollout_complete', rollout_id: 'exp-1.a', time, sequence: 2 },
      ],
    })
  })

  it('accepts any data: values without a JSON form are omitted, and its own fields are not overwritten', async () => {
    const cycle: Record<string, unknown> = { ok: 1 }
    cycle['self'] = cycle
    const { files } = await tracesOf(
      'r1',
      (ctx) =>
        ctx.logEvent('odd', {
          cycle,
          nan: Number.NaN,
          at: new Date(0),
          event: 'x',
          rollout_id: 'y',
        }),
      await temporaryFolder(),
    )
    expect(files['r1.jsonl']).toEqual([
      {
        event: 'odd',
        rollout_id: 'r1',
        time,
        sequence: 0,
        cycle: { ok: 1 },
        at: '1970-01-01T00:00:00.000Z',
        data_event: 'x',
        data_rollout_id: 'y',
      },
    ])
  })

  it.each(['../../escape', 'exp/1', '.', 'x'.repeat(256), 'ü'])(
    'of the rollout %j stays in its folder',
    async (rolloutId) => {
      const outer = await temporaryFolder()
      const { files } = await tracesOf(
        rolloutId,
        (ctx) => ctx.logEvent('e'),
        path.join(outer, 'in'),
      )
      expect(Object.values(files)).toEqual([
        [{ event: 'e', rollout_id: rolloutId, time, sequence: 0 }],
      ])
      expect(readdirSync(outer)).toStrictEqual(['in'])
    },
  )

  it('is not written without a folder, and does not affect the rollout when it cannot be written', async () => {
    const none = await tracesOf('r1', (ctx) => ctx.logEvent('e'), undefined)
    expect(none).toStrictEqual({ files: {}, enabled: false, warnings: [] })

    await using running = await startApp({
      debugDir: '/dev/null/traces',
      loop: loopOf(async (ctx) => {
        ctx.logEvent('e')
        await expect.poll(warnings).toHaveLength(1)
        ctx.logEvent('e')
        return ctx.complete([])
      }),
    })
    const warnings = (): unknown[] => running.log.filter(({ level }) => level === 'warn')
    await running.init()
    expect(await running.trainer.results()).toMatchObject([{ status: 'COMPLETED' }])
    // Once: another attempt could continue a part of a line.
    expect(warnings()).toMatchObject([
      { message: expect.stringMatching(/^the trace cannot be written: ENOTDIR/) },
    ])
  })
})
