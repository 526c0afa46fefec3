import path from 'node:path'

/** Where a training leaves the policy. */
export const policyFile = path.resolve(import.meta.dirname, '../.osmosis/train/policy.json')
