import type { Mutation } from './mutation.ts'

/** Rollouts on many machines: what Redis may do, and what a queue promises then. */
export const queueMutations: readonly Mutation[] = [
  {
    name: 'queue: a Redis that became a replica keeps its connections',
    file: 'packages/bullmq/src/connection/queue-connection.ts',
    from: '      reconnectOnError: isFromAnother,\n',
    to: '',
    tests: ['packages/bullmq/test/broken-connections.test.ts'],
  },
  {
    name: 'queue: outcomes are told before a replica has them',
    file: 'packages/bullmq/src/connection/replication.ts',
    from: "    if (this.#standing === 'alone') return\n    // A primary",
    to: '    if (losses >= 0) return\n    // A primary',
    tests: ['packages/bullmq/test/failovers.test.ts'],
  },
  {
    name: 'queue: what was confirmed by another connection is confirmed',
    file: 'packages/bullmq/src/connection/replication.ts',
    from: '        if (since === this.#losses) return\n',
    to: '        return\n',
    tests: ['packages/bullmq/test/replication.test.ts'],
  },
  {
    name: 'queue: a primary that has just changed is looked at once a second',
    file: 'packages/bullmq/src/connection/replication.ts',
    from: 'if (!isSettled || performance',
    to: 'if (performance',
    tests: ['packages/bullmq/test/replication.test.ts'],
  },
  {
    name: 'queue: a Redis that says nothing of replicas has none',
    file: 'packages/bullmq/src/connection/replication.ts',
    from: "    if (told === '') return\n",
    to: '',
    tests: ['packages/bullmq/test/replication.test.ts'],
  },
  {
    name: 'queue: a password ends at the first @',
    file: 'packages/protocol/src/wire/redis-address.ts',
    from: "rest.lastIndexOf('@')",
    to: "rest.indexOf('@')",
    tests: ['packages/protocol/test/redis-address.test.ts'],
  },
  {
    name: 'queue: a server whose Redis stores nothing is healthy',
    file: 'packages/bullmq/src/server/queue-control.ts',
    from: '      if (queue.trouble !== undefined) throw queue.trouble\n',
    to: '',
    tests: ['packages/bullmq/test/servers.test.ts'],
  },
  {
    name: 'queue: a server waits while Redis refuses to write',
    file: 'packages/bullmq/src/server/queue-admission.ts',
    from: '(error) => isUnavailable(error) && refusalWord(error) === undefined,',
    to: '(error) => isUnavailable(error),',
    tests: ['packages/bullmq/test/servers.test.ts'],
  },
  {
    name: 'queue: rights to channels are not tried',
    file: 'packages/bullmq/src/connection/queue-connection.ts',
    from: '      await this.#tryChannels(redis)\n',
    to: '',
    tests: ['packages/bullmq/test/rollout-queue.test.ts'],
  },
  {
    name: 'queue: other values of a config are the same code',
    file: 'packages/cli/src/queue/code-version.ts',
    from: '  if (Object.keys(set).length === 0) return version\n',
    to: '  if (set !== undefined) return version\n',
    tests: ['packages/cli/test/queue.test.ts'],
  },
  {
    name: 'queue: a node of a cluster is a Redis like others',
    file: 'packages/bullmq/src/connection/redis-settings.ts',
    from: "if (info.get('redis_mode') === 'cluster') {",
    to: "if (info.get('redis_mode') === 'none') {",
    tests: ['packages/bullmq/test/rollout-queue.test.ts'],
  },
]
