"""The losses of trained models, each a few lines on the means that `loss` explains.

s_ui is the score of an interaction, E_j the mean over items j, a_u the number of interactions of
the user and n that of items. τ_u is the share of items that the user likes, known or not:
(1 + α) a_u / n.
"""
