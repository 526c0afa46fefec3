import notes from '@changesets/cli/changelog'

/** The text of the changelogs: a note per changeset, and one line for all updated dependencies. */
const changelog: typeof notes = {
  ...notes,
  getDependencyReleaseLine: async (_changesets, dependencies) => {
    const updated = dependencies.map(({ name, newVersion }) => `\`${name}@${newVersion}\``)
    return updated.length === 0 ? '' : `- Updated dependencies: ${updated.join(', ')}`
  },
}

export default changelog
