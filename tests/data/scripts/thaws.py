"""The layers of the middle thaw in the third epoch."""

from usual import Usual

usual = Usual()
usual.model[0].requires_grad_(False)
usual.model[2].requires_grad_(False)
for epoch in range(4):
    if epoch == 2:
        usual.model.requires_grad_(True)
    usual.one_pass()
    usual.validate()
