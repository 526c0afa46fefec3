import * as server from '@osmosis/server'
import * as protocols from '@osmosis/server/protocols'
import { expect, it } from 'vitest'

it('exports only what its users need', () => {
  expect(new Set(Object.keys(server))).toStrictEqual(
    new Set([
      'LocalBackend',
      'createRolloutServer',
      'createStderrLogger',
      'discoverEntrypoint',
      'readServerEnvironment',
      'runToEnd',
      'serve',
      'silentLogger',
    ]),
  )
})

it('exports what servers of other rollout protocols are built on', () => {
  expect(new Set(Object.keys(protocols))).toStrictEqual(
    new Set([
      'AdmittedIds',
      'Admission',
      'HttpRefusal',
      'OwnershipLog',
      'TrajectoryFiles',
      'conversationJson',
      'OutcomeLog',
      'countModelCalls',
      'counted',
      'createServerShell',
      'deliverCompletion',
      'deliverGrading',
      'gradingOf',
      'digestOf',
      'digestOfToken',
      'jsonAnswer',
      'jsonTextAnswer',
      'leaseSettings',
      'leasedResult',
      'newLease',
      'ownProcess',
      'owned',
      'portRoutes',
      'reachableUrl',
      'refusals',
      'RowGroups',
      'rowOf',
      'showBackend',
      'stepRewardsDropped',
      'toLeasedEnd',
      'toRolloutRequest',
      'toTargets',
      'traceHeadersOf',
      'warnOfStepRewards',
      'withExactData',
    ]),
  )
})
